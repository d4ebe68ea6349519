"""A target model and its draft."""

from __future__ import annotations

import dataclasses
import functools
import os

import jax
from jax.sharding import Mesh

from tv_jax import drafting, models
from tv_jax.io.errors import UserError
from tv_jax.io.reading import path_of
from tv_jax.models import Model
from tv_jax.models import tokenizers as tokenizers_lib


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Pair:
  """A target model and its draft, made by `tv_jax.load`.

  Attributes:
    target: The target model. Its output distribution is preserved.
    draft: The model that drafts; None if the pair can only decode plainly.
    draft_kind: One of `drafting.KINDS`, or "none".
    ends: Token ids that end an answer.
    path: Directory or repository of the tokenizer, or None.
    revision: Commit of this repository.
  """

  target: Model
  draft: Model | None
  draft_kind: str
  ends: tuple[int, ...] = ()
  path: str | None = None
  revision: str | None = None

  def __post_init__(self):
    """Raises ValueError if draft and target vocabularies differ in size."""
    if self.draft is not None:
      models.check_vocabularies(self.target.config, self.draft.config)

  def __repr__(self) -> str:
    """Shows where both models were loaded from."""
    draft = f"{self.draft.source} ({self.draft_kind})" if self.draft else "none"
    return f"Pair(target={self.target.source}, draft={draft})"

  def positions(self, drafting: bool = True) -> int:
    """Returns how many tokens a prompt and its answer may have together.

    Args:
      drafting: Whether the draft is used.
    """
    models = [self.target]
    # A head's rotary embedding works beyond the limit in its config.json.
    if drafting and self.draft and self.draft_kind == "independent":
      models.append(self.draft)
    return min(model.config.max_position_embeddings for model in models)

  @functools.cached_property
  def tokenizer(self):
    """The target's tokenizer, loaded on first use."""
    if self.path is None:
      raise UserError("this pair has no tokenizer: give prompts as token ids")
    return tokenizers_lib.load_tokenizer(self.path, self.revision)


def load(
  draft,
  target,
  *,
  draft_kind: str = "independent",
  dtype=None,
  mesh: Mesh | None = None,
  shard_draft: bool = False,
  draft_revision: str | None = None,
  revision: str | None = None,
) -> Pair:
  """Loads a target model and its draft.

  Args:
    draft: A directory in Hugging Face's layout, a GGUF file, or a repository on
      the hub. The package has "bundled/draft", "bundled/draft_weak",
      "bundled/eagle", "bundled/eagle3" and "bundled/dspark" for
      "bundled/target", and "bundled/smollm2_draft" and
      "bundled/smollm2_eagle" for SmolLM2. Ignored if `draft_kind` is "none".
    target: As for `draft`; "bundled/target", or "installed/PACKAGE/FILE" for a
      file of an installed package.
    draft_kind: "independent" for a separate language model, "eagle" for an
      EAGLE-1 head, "eagle3" for an EAGLE-3 head, "dspark" for a DSpark or
      DFlash draft, which drafts all levels in one pass, or "none" for plain
      decoding.
    dtype: Type of all weights. Default: as stored; on a CPU float32, since half
      precision is several times slower there.
    mesh: Devices over which to split the target (`models.sharding.mesh`).
    shard_draft: Whether to split an independent draft over them as well.
      Otherwise each device holds a copy. Other kinds are split like the target.
    draft_revision: Commit of the draft's repository.
    revision: Commit of the target's repository.

  Raises:
    ValueError: A checkpoint is wrong. The message lists all its faults.
  """
  known = (*drafting.KINDS, "none")
  if draft_kind not in known:
    raise UserError(
      f"draft_kind={draft_kind!r} is not one of {', '.join(known)}"
    )
  if draft_kind != "none" and draft is None:
    raise UserError(
      f"draft_kind={draft_kind!r} needs a draft: give its path, or "
      'draft_kind="none" for plain decoding'
    )
  if dtype is None and jax.default_backend() == "cpu":
    dtype = "float32"
  draft, target = map(_expanded, (draft, target))
  model = models.load(target, dtype, mesh, revision)
  loaded = None
  if draft_kind != "none":
    loaded = drafting.KINDS[draft_kind].load(
      draft_kind,
      draft,
      model,
      dtype=dtype,
      split=shard_draft,
      revision=draft_revision,
    )
    tokenizers_lib.check_tokens((draft, draft_revision), (target, revision))
  return Pair(
    target=model,
    draft=loaded,
    draft_kind=draft_kind,
    ends=tokenizers_lib.end_tokens(target, revision),
    path=str(target),
    revision=revision,
  )


def _expanded(path):
  """Resolves bundled names and ~, which tokenizers do not understand."""
  if isinstance(path, str):
    path = path_of(path)
  return path and os.path.expanduser(path)
