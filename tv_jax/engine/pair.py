"""A target model and its draft."""

from __future__ import annotations

import dataclasses

import jax
from jax.sharding import Mesh

from tv_jax import drafting, models
from tv_jax.io.errors import UserError
from tv_jax.models import Model, sharding, tokenizers
from tv_jax.models.checkpoint import Checkpoint


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Pair:
  """A target model and its draft, made by `tv_jax.load`.

  Attributes:
    target: The target model. Its output distribution is preserved.
    draft: The model that drafts; None if the pair can only decode plainly.
    ends: Token ids that end an answer.
    checkpoint: The target's checkpoint, which has the tokenizer; or None.
  """

  target: Model
  draft: Model | None = None
  ends: tuple[int, ...] = ()
  checkpoint: Checkpoint | None = None

  def __post_init__(self):
    """Raises ValueError if draft and target vocabularies differ in size."""
    if self.draft is not None:
      models.check_vocabularies(self.target.config, self.draft.config)

  def __repr__(self) -> str:
    """Shows where both models were loaded from."""
    draft = f"{self.draft.source} ({self.kind})" if self.draft else "none"
    return f"Pair(target={self.target.source}, draft={draft})"

  @property
  def kind(self) -> str | None:
    """The name in `drafting.KINDS` of the draft; None without a draft."""
    return drafting.kind_of(self.draft.module) if self.draft else None

  def positions(self, drafted: bool = True) -> int:
    """Returns how many tokens a prompt and its answer may have together.

    Args:
      drafted: Whether the draft is used.
    """
    models = [self.target]
    # A head's rotary embedding works beyond the limit in its config.json.
    if drafted and self.draft and self.kind == "independent":
      models.append(self.draft)
    return min(model.config.max_position_embeddings for model in models)

  @property
  def tokenizer(self):
    """The target's tokenizer, loaded on first use."""
    if self.checkpoint is None:
      raise UserError("this pair has no tokenizer: give prompts as token ids")
    return self.checkpoint.tokenizer


def load(
  target,
  draft=None,
  *,
  dtype=None,
  mesh: Mesh | None = None,
  shard_draft: bool = False,
  draft_revision: str | None = None,
  revision: str | None = None,
  weights: str = "stored",
  draft_kind: None = None,
) -> Pair:
  """Loads a target model and its draft.

  The draft's kind is read from its checkpoint: a separate language model, an
  EAGLE-1 or EAGLE-3 head, or a DSpark or DFlash draft, which drafts all levels
  in one pass.

  Args:
    target: A directory in Hugging Face's layout, a GGUF file, or a repository
      on the hub. The package has "bundled/target"; "installed/PACKAGE/FILE" is
      a file of an installed package.
    draft: As for `target`; None for a pair that only decodes plainly. The
      package has "bundled/draft", "bundled/draft_weak", "bundled/eagle",
      "bundled/eagle3" and "bundled/dspark" for "bundled/target", and
      "bundled/smollm2_draft" and "bundled/smollm2_eagle" for SmolLM2.
    dtype: Type of all weights. Default: as stored; on a CPU float32, since half
      precision is several times slower there.
    mesh: Devices over which to split the target (`models.sharding.mesh`).
    shard_draft: Whether to split an independent draft over them as well.
      Otherwise each device holds a copy. Other kinds are split like the target.
    draft_revision: Commit, tag or branch of the draft's repository.
    revision: Commit, tag or branch of the target's repository.
    weights: "stored", or "dequantised" for the quantised weights of GGUF files
      as arrays. On a CPU with a C++ compiler they are otherwise kept as they
      are stored, which takes a fraction of the memory and time.
    draft_kind: Gone; refused with a sentence.

  Raises:
    ValueError: A checkpoint is wrong. The message lists all its faults.
  """
  if draft_kind is not None:
    raise UserError(
      f"draft_kind={draft_kind!r} is gone: a draft's kind is read from its"
      " checkpoint, load(target, draft)"
    )
  if dtype is None and jax.default_backend() == "cpu":
    dtype = "float32"
  if mesh is not None:  # a draft that is not split is used there, too
    weights = "dequantised"
  target = Checkpoint.open(target, revision)
  kind = drafting.recognise(target)
  if kind != "independent":
    title = drafting.KINDS[kind].module.format.title
    raise UserError(
      f"{target.source} is {title}, and no target: the target comes first,"
      " load(target, draft)"
    )
  model, loaded = models.load(target, dtype, mesh, weights=weights), None
  if draft is not None:
    draft = Checkpoint.open(draft, draft_revision)
    split = mesh if shard_draft else None
    loaded = drafting.load(draft, model, dtype, split, weights=weights)
    if type(loaded.module) is type(model.module) and loaded.size > model.size:
      raise UserError(
        f"the draft {draft.source} is larger than its target"
        f" {target.source}: the target"
        " comes first, load(target, draft)"
      )
    if loaded.mesh is not mesh:  # a copy on each device
      params = jax.device_put(loaded.params, sharding.placement((), mesh))
      loaded = dataclasses.replace(loaded, params=params)
    tokenizers.check_tokens(draft, target)
  return Pair(
    target=model,
    draft=loaded,
    ends=tokenizers.end_tokens(target),
    checkpoint=target,
  )
