"""Prompts in, tokens out."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import NamedTuple

import jax
import numpy as np

from tv_jax.engine.config import (
  SEEDS,
  DecodeConfig,
  Options,
  Rule,
  decode_config,
)
from tv_jax.engine.decode import Batch, Prompt, decode
from tv_jax.engine.pair import Pair
from tv_jax.engine.results import FAULT, Generation, stop_after
from tv_jax.engine.state import continuation
from tv_jax.io import checks
from tv_jax.io.errors import UserError
from tv_jax.io.progress import bar, silent
from tv_jax.io.reading import brief
from tv_jax.models import templates
from tv_jax.proposals import Proposal
from tv_jax.tree import Tree

# A list of messages, each {"role": .., "content": ..}.
Conversation = Sequence[Mapping[str, str]]
# A text, a conversation or token ids; usually a list of these.
Prompts = str | Sequence[str | Sequence[int] | Conversation]


def generate(
  pair: Pair,
  prompts: Prompts,
  *,
  tree: Tree | str = "eagle",
  verifier: Rule = "traversal",
  proposal: Proposal | str = "without_replacement",
  temperature: float = 1.0,
  max_new_tokens: int = 128,
  seed: int = 0,
  template: str = "raw",
  panel: Sequence[Rule] | None = (),
  top_k: int = 0,
  top_p: float = 1.0,
  draft_temperature: float = 0.0,
  draft_stop: float = 0.0,
  stop: str | Sequence[str] | None = None,
  ends: Sequence[int] | None = None,
  batch_size: int = 16,
  items: Sequence[int] | None = None,
  among: Sequence[Rule] = (),
  progress: bool | None = None,
) -> Generation:
  """Continues prompts by speculative decoding with a draft tree.

  The output has the distribution of the target model, whatever the draft, the
  tree and the verifier; they only change the speed.

    pair = tv_jax.load("bundled/target", "bundled/draft")
    result = tv_jax.generate(pair, ["What does a fox eat?"], template="chat")
    print(result)  # tokens per cycle, expected lengths, speed
    print(result.text[0])

  Args:
    pair: The target and its draft, from `tv_jax.load`.
    prompts: A list of prompts, or a single text or conversation. A prompt is a
      text, a list of token ids, or a conversation. A conversation is a list of
      messages {"role": .., "content": ..}, and always goes through the
      tokenizer's chat template.
    tree: The tree that is drafted in each cycle: a `tv_jax.tree.Tree`, or a
      text such as "chain:5", "kary:2x5" or "eagle" (`tv_jax.tree.parse` lists
      all forms).
    verifier: The verification rule: "traversal", "token_level", "block" or
      another name of `tv_jax.verifiers.VERIFIERS`, a `Verifier`, a `decide`
      function, or the name of your own rule, "package.module:name". "plain"
      decodes without a draft.
    proposal: How the children of a node are drawn: a name of
      `tv_jax.proposals.PROPOSALS`, a `Proposal`, or the name of your own,
      "package.module:name".
    temperature: Sampling temperature of the target. 0 is greedy decoding.
    max_new_tokens: Maximum number of new tokens for each prompt.
    seed: Seed of all random draws.
    template: How texts become tokens: "raw" (tokenized as they are), "chat"
      (the tokenizer's chat template), "vicuna", or "without_thinking" (Qwen3's
      template with thinking disabled).
    panel: Further verifiers whose expected lengths are computed on the same
      drafts. `verifier` itself is always included, unless `panel` is None,
      which is fastest.
    top_k: Restricts target and draft to their k most likely tokens; 0 for all.
    top_p: Restricts target and draft to the fewest tokens with this total
      probability; 1 for all.
    draft_temperature: Sampling temperature of the draft; 0: the target's, but
      at least 0.1, and 1 for a proposal that only ranks tokens.
    draft_stop: Minimum confidence of a DSpark draft for drafting below a node;
      0 disables the check.
    stop: Stop strings: each answer is truncated before the first match. They
      are looked for after decoding, so lengths and `seconds` include tokens
      after the match. Use `ends` to end the decoding itself.
    ends: Token ids that end an answer. Default: the checkpoint's end tokens.
    batch_size: Number of prompts that are decoded together. When one ends, the
      next takes its place.
    items: A number for each prompt; default: its index. The random draws of a
      prompt depend only on `seed` and this number, not on the other prompts.
    among: Verifiers that share one compiled program with `verifier`. A later
      call with the same list and another `verifier` in it compiles nothing.
      They also join the panel, unless it is None.
    progress: Whether to show a progress bar. Default: on a terminal, if there
      are more prompts than `batch_size`.

  Returns:
    The tokens, the lengths of all cycles, and times; see `Generation`.

  Raises:
    ValueError: An option or a prompt is wrong, or memory ran out.
  """
  config = decode_config(pair, Options.of(locals()))
  read = read_prompts(pair, config, prompts, template=template, items=items)
  return decode_all(pair, config, read, progress=progress)


class Cycle(NamedTuple):
  """The tokens that a cycle adds to an answer.

  Attributes:
    tokens: The new tokens, up to an end or the limit.
    drafted: Number of drafted tokens, which come first. The bonus token
      follows.
  """

  tokens: list[int]
  drafted: int


def stream(
  pair: Pair,
  prompt: str | Sequence[int] | Conversation,
  *,
  tree: Tree | str = "eagle",
  verifier: Rule = "traversal",
  proposal: Proposal | str = "without_replacement",
  temperature: float = 1.0,
  max_new_tokens: int = 128,
  seed: int = 0,
  template: str = "raw",
  top_k: int = 0,
  top_p: float = 1.0,
  draft_temperature: float = 0.0,
  draft_stop: float = 0.0,
  stop: str | Sequence[str] | None = None,
  ends: Sequence[int] | None = None,
  item: int = 0,
) -> Iterator[Cycle]:
  """Continues one prompt, and yields the tokens cycle by cycle.

  Yields the same tokens as `tv_jax.generate`. The results of each cycle are
  copied to the host. The stream ends with the token that completes a stop
  string.

  `tv_jax.generate` describes the options. `prompt` is a text, a conversation or
  token ids, and `item` is its number in `items`.

  Raises:
    ValueError: An option or the prompt is wrong. The options are checked at the
      call. Nothing is compiled before the first cycle is asked for.
  """
  config = decode_config(pair, Options.of(locals()))
  (read,) = read_prompts(
    pair, config, [prompt], template=template, items=[item]
  )
  return _stream(pair, config, read)


def _stream(pair, config, prompt) -> Iterator[Cycle]:
  batch = Batch(pair, config, 1, len(prompt.tokens))
  batch.insert([prompt], 0)
  told, end, faults = 0, None, 0
  while end is None and not batch.state.done[0]:
    batch.step()
    so_far = continuation(jax.device_get(batch.state.records), 0)
    end = stop_after(pair, so_far.tokens, config.stop)
    new = so_far.tokens[told:end]
    yield Cycle(new, min(int(so_far.gained[-1]) - 1, len(new)))
    told += len(new)
    faults = so_far.faults
  _warn(faults, stacklevel=3)


def decode_all(
  pair: Pair,
  config: DecodeConfig,
  prompts: Sequence[Prompt],
  *,
  progress: bool | None = None,
  step: Callable[[Batch], object] | None = None,
) -> Generation:
  """Decodes prompts from `read_prompts`, and collects them in one result.

  `progress` is described in `generate`, and `step` in `decode`.
  """
  longest = max(len(prompt.tokens) for prompt in prompts)
  batch = Batch(pair, config, min(config.batch_size, len(prompts)), longest)
  if progress is None:
    progress = sys.stderr.isatty() and len(prompts) > batch.size
  continued = []
  with bar() if progress else nullcontext(silent) as shown:
    begin = time.perf_counter()
    for own in decode(batch, prompts, step):
      continued.append(own)
      shown("prompts", len(continued), len(prompts))
    seconds = time.perf_counter() - begin
  compiling = batch.seconds["compile"]
  result = Generation(
    tokens=[
      own.tokens[: stop_after(pair, own.tokens, config.stop)]
      for own in continued
    ],
    gained=[own.gained for own in continued],
    drafted=[own.drafted for own in continued],
    expected={
      rule.name: [own.expected[rule.name] for own in continued]
      for rule in config.static.panel
    },
    stops=np.sum([own.stops for own in continued], axis=0),
    faults=sum(own.faults for own in continued),
    seconds=seconds - compiling,
    compile_seconds=compiling,
    config=config,
    pair=pair,
  )
  _warn(result.faults)
  return result


def _warn(faults: int, stacklevel: int = 4) -> None:
  """Warns of cycles with faults, at the user's line."""
  if faults:
    text = f"{faults} cycles met a fault: {FAULT}"
    warnings.warn(text, RuntimeWarning, stacklevel=stacklevel)


def read_prompts(
  pair: Pair,
  config: DecodeConfig,
  prompts: Prompts,
  *,
  template: str = "raw",
  items: Sequence[int] | None = None,
) -> list[Prompt]:
  """Encodes prompts as `generate` describes, and numbers them."""
  limit = config.max_new_tokens
  encoded = encode_prompts(
    pair, prompts, template, limit, drafting=bool(config.static.drafter)
  )
  if items is None:
    items = [*range(len(encoded))]
  items = _integers(items, SEEDS, "items")
  if len(items) != len(encoded):
    raise UserError(
      f"items={brief(items)}: give {len(encoded)} numbers, one for each prompt"
    )
  return [
    Prompt(tokens, item, limit)
    for tokens, item in zip(encoded, items, strict=True)
  ]


def encode_prompts(
  pair: Pair, prompts, template: str, limit: int, *, drafting: bool = True
) -> list[list[int]]:
  """Encodes prompts as `generate` describes.

  `limit` is the number of new tokens; `drafting` is whether a draft is used.

  Raises:
    ValueError: A prompt is empty, or too long for `limit` new tokens.
  """
  given = templates.encode_prompts(template, lambda: pair.tokenizer, prompts)
  if not given:
    raise UserError("there are no prompts")
  config, most = pair.target.config, pair.positions(drafting)
  encoded = []
  for i, ids in enumerate(given):
    tokens = _integers(ids, config.vocab_size, f"prompt {i}")
    if not tokens:
      raise UserError(
        f"prompt {i} is empty: give at least one token, such as the start token"
        f" {config.bos_token_id}"
      )
    if len(tokens) + limit > most:
      raise UserError(
        f"prompt {i} of {len(tokens)} tokens and max_new_tokens={limit} do not"
        f" fit in the {most} positions of the"
        f" {'models' if drafting else 'target'}:"
        " shorten the prompt or the answer"
      )
    encoded.append(tokens)
  return encoded


def _integers(values, below: int, where: str) -> list[int]:
  """Checks integers from 0 to `below` - 1 in a list or an array."""
  if hasattr(values, "tolist"):
    values = values.tolist()
  integer = checks.integer(0, below - 1)
  return [*checks.list_of(integer)(values, where)]
