"""Drafting: what a draft model does, and the trees that it grows."""

from tv_jax.drafting.adaptive import by_confidence as by_confidence
from tv_jax.drafting.adaptive import topology as topology
from tv_jax.drafting.drafter import Committed as Committed
from tv_jax.drafting.drafter import Drafter as Drafter
from tv_jax.drafting.growers import Drafted as Drafted
from tv_jax.drafting.growers import Growing as Growing
from tv_jax.drafting.growers import grow as grow
from tv_jax.drafting.growers import spread as spread
from tv_jax.drafting.in_one_pass import InOnePass as InOnePass
from tv_jax.drafting.kinds import KINDS as KINDS
from tv_jax.drafting.kinds import Independent as Independent
from tv_jax.drafting.kinds import OnFeatures as OnFeatures
from tv_jax.drafting.kinds import place_of as place_of
