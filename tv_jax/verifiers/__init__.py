"""Verification rules: what of a drafted tree is kept, and what comes next.

Each rule is a pure function for ONE tree; `vmap` makes a batch. Randomness
comes in as uniforms, one a node, so that a rule can be enumerated and replayed.
A new rule is one file and one line in `VERIFIERS`.
"""

from tv_jax.verifiers.decision import NOT_OFFERED as NOT_OFFERED
from tv_jax.verifiers.decision import Decision as Decision
from tv_jax.verifiers.decision import settle as settle
from tv_jax.verifiers.offers import DOWN as DOWN
from tv_jax.verifiers.offers import UP as UP
from tv_jax.verifiers.offers import Offers as Offers
from tv_jax.verifiers.residual import positive as positive
from tv_jax.verifiers.verifier import Decide as Decide
from tv_jax.verifiers.verifier import Shape as Shape
from tv_jax.verifiers.verifier import Verifier as Verifier
from tv_jax.verifiers.verifier import chains_only as chains_only

# Rules of one's own begin with the names above.
# isort: split
from tv_jax.verifiers.table import DEFAULT as DEFAULT
from tv_jax.verifiers.table import VERIFIERS as VERIFIERS
from tv_jax.verifiers.table import misfit as misfit
from tv_jax.verifiers.table import resolve as resolve
from tv_jax.verifiers.verdict import Verdict as Verdict
from tv_jax.verifiers.verdict import check_draft as check_draft
from tv_jax.verifiers.verdict import checked as checked
from tv_jax.verifiers.verdict import draw_bonus as draw_bonus
from tv_jax.verifiers.verdict import draw_verdict as draw_verdict
from tv_jax.verifiers.verdict import toss as toss
from tv_jax.verifiers.verdict import verify as verify
