"""A target, and what drafts for it."""

from __future__ import annotations

import dataclasses
import functools
import os

import jax
from jax.sharding import Mesh

from tv_jax import drafting, models
from tv_jax.edge.reading import brief, place_of
from tv_jax.models import Model
from tv_jax.models import tokenizers as tokenizers_lib


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Pair:
  """What `load` returns.

  Attributes:
    target: The model whose law is kept.
    draft: What drafts for it; None for plain decoding alone.
    draft_kind: One of `drafting.KINDS`, or "none".
    ends: The tokens that end an answer.
    path: Where the target's tokenizer is; None if there is none.
    revision: Of that, if it is a hub's.
  """

  target: Model
  draft: Model | None
  draft_kind: str
  ends: tuple[int, ...] = ()
  path: str | None = None
  revision: str | None = None

  def __post_init__(self):
    """Refuses a draft of another vocabulary."""
    if self.draft is not None:
      models.check_vocabularies(self.target.config, self.draft.config)

  def __repr__(self) -> str:
    """Returns where the two came from."""
    draft = f"{self.draft.source} ({self.draft_kind})" if self.draft else "none"
    return f"Pair(target={self.target.source}, draft={draft})"

  @functools.cached_property
  def tokenizer(self):
    """Returns the target's tokenizer, loaded when it is first asked for."""
    if self.path is None:
      raise ValueError("this pair has no tokenizer: give prompts as token ids")
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
  """Loads a target and its draft.

  Args:
    draft: A directory in Hugging Face's layout, a GGUF file, a hub repository,
      or one of those that come with the package: "bundled/draft",
      "bundled/draft_weak", "bundled/eagle", "bundled/eagle3",
      "bundled/dspark", and for SmolLM2
      "bundled/smollm2_eagle" and "bundled/smollm2_draft"; not read if
      `draft_kind` is "none".
    target: Likewise; "bundled/target", or a file of a package that is
      installed, "installed/PACKAGE/FILE".
    draft_kind: "independent" for a language model of its own, "eagle" for an
      EAGLE-1 head on the target's features, "eagle3" for an EAGLE-3 head,
      "dspark" for a DSpark or DFlash draft, which makes one pass for all
      levels; "none" for plain decoding.
    dtype: Of both; by default as stored, but float32 on a CPU, where half
      precision is several times slower.
    mesh: The devices to split the target over (`models.sharding.mesh`).
    shard_draft: Whether an independent draft is split over them as well; else
      each device holds all of it. A draft on features follows its target.
    draft_revision: A commit of the draft's repository.
    revision: A commit of the target's repository.

  Returns:
    The pair.

  Raises:
    ValueError: In one line, what is wrong with a checkpoint.
  """
  known = (*drafting.KINDS, "none")
  if draft_kind not in known:
    raise ValueError(
      f"draft_kind={draft_kind!r} is not one of {', '.join(known)}"
    )
  if draft_kind != "none" and draft is None:
    raise ValueError(
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
    if draft:  # a kind of drafting may need no checkpoint
      tokenizers_lib.check_tokens((draft, draft_revision), (target, revision))
  return Pair(
    target=model,
    draft=loaded,
    draft_kind=draft_kind,
    ends=_ends(target, revision, model),
    path=str(target),
    revision=revision,
  )


def _expanded(path):
  """Returns where a checkpoint is; what reads tokenizers does not know of ~."""
  if isinstance(path, str):
    path = place_of(path)
  return path and os.path.expanduser(path)


def _ends(target, revision, model) -> tuple[int, ...]:
  """The end tokens that the checkpoint names; a random model may name none."""
  ends = tokenizers_lib.end_tokens(target, revision)
  for token in ends:
    if token >= model.config.vocab_size:
      raise ValueError(
        f"{target} names the end token {brief(token)}: the vocabulary is 0 to"
        f" {model.config.vocab_size - 1}"
      )
  return ends
