"""How siblings are drawn, and the law that each was drawn from."""

from tv_jax.proposals.proposal import INVALID as INVALID
from tv_jax.proposals.proposal import NEVER as NEVER
from tv_jax.proposals.proposal import Proposal as Proposal
from tv_jax.proposals.standard import SAMPLE_THEN_TOP as SAMPLE_THEN_TOP
from tv_jax.proposals.standard import TOP_K as TOP_K
from tv_jax.proposals.standard import WITH_REPLACEMENT as WITH_REPLACEMENT
from tv_jax.proposals.standard import WITHOUT_REPLACEMENT as WITHOUT_REPLACEMENT
from tv_jax.proposals.standard import exhausted as exhausted
from tv_jax.proposals.standard import one_hot_of_best as one_hot_of_best
from tv_jax.proposals.standard import over as over
from tv_jax.proposals.table import PROPOSALS as PROPOSALS
from tv_jax.proposals.table import resolve as resolve
