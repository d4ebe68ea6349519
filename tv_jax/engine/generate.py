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

from tv_jax.edge import checks
from tv_jax.edge.progress import bar
from tv_jax.edge.reading import brief
from tv_jax.engine import programs
from tv_jax.engine.config import SEEDS, DecodeConfig, decode_config
from tv_jax.engine.decode import Batch, Prompt, decode
from tv_jax.engine.pair import Pair
from tv_jax.engine.results import FAULT, IDLE, Generation, stop_after
from tv_jax.engine.state import trace_of
from tv_jax.models import templates

# A text, messages or token ids; as a rule several of these.
Prompts = str | Sequence[str | Sequence[int] | Sequence[Mapping[str, str]]]


def generate(
  pair: Pair,
  prompts: Prompts,
  *,
  template: str = "raw",
  items: Sequence[int] | None = None,
  progress: bool | None = None,
  **options,
) -> Generation:
  """Continues prompts.

  Args:
    pair: Of `tv_jax.load`.
    prompts: Any number of them, each a string, token ids, or messages
      ({"role": .., "content": ..}), which go through the tokenizer's own
      template; or a single string or conversation.
    template: How strings become tokens: "raw", "chat", "vicuna", or
      "without_thinking" (Qwen3's).
    items: A number for each prompt; by default its place. A prompt's draws come
      from this number and the seed alone, so its answer does not depend on the
      other prompts.
    progress: Whether to show a bar; by default on a terminal, for several
      batches.
    **options: What to do, all by keyword:
      tree ("eagle"): a `Tree`, or a text that `tv_jax.tree.parse` reads.
      verifier ("traversal"): a name, a `Verifier`, a `decide` function, or None
        for plain autoregressive decoding.
      proposal ("without_replacement"): how siblings are drawn.
      temperature (1.0): 0 is greedy decoding.
      draft_temperature: by default the same, but at least 0.1; 1 for a
        proposal that only ranks.
      draft_stop (0.0): drafts nothing below a node of which a DSpark draft is
        less sure than this.
      top_k (0), top_p (1.0): truncate both laws.
      max_new_tokens (128): at most, for each prompt.
      seed (0): of all draws.
      batch_size (16): prompts that are decoded together; where one ends, the
        next begins.
      panel (()): more verifiers, by name, whose expected lengths are computed
        on the same drafts. None is fastest: not even the verifier's own is
        computed.
      ends: tokens that end an answer; by default the checkpoint's.
      stop: a text, or several, before the first of which an answer is cut, once
        it is decoded. Lengths are counted before the cut, and `seconds` too:
        for a speed give `ends`, which end decoding.
      among (()): names of rules, the verifier's own among them, that share one
        program. Then to ask for another of them compiles nothing.
      trace (0): for so many first cycles of each prompt, trees with chances and
        coins are kept in the result's `trace`.

  Returns:
    What was generated, and how.

  Raises:
    ValueError: An option or a prompt is wrong; nothing was compiled.
    TypeError: There is no such option.
  """
  config = decode_config(pair, **options)
  read = read_prompts(pair, config, prompts, template=template, items=items)
  return decode_all(pair, config, read, progress=progress)


class Cycle(NamedTuple):
  """What a cycle adds to an answer.

  Attributes:
    tokens: Up to an end, or the limit.
    drafted: So many of them, the first, were drafted; what follows is the
      bonus token.
  """

  tokens: list[int]
  drafted: int


def stream(
  pair: Pair,
  prompt: str | Sequence[int] | Sequence[Mapping[str, str]],
  *,
  template: str = "raw",
  item: int = 0,
  **options,
) -> Iterator[Cycle]:
  """Continues a prompt, and yields the tokens as they are accepted.

  They are those of `generate`; but the host is asked after every cycle.

  Args:
    pair: Of `tv_jax.load`.
    prompt: A string, messages or token ids.
    template: How a string becomes tokens.
    item: The prompt's number; in `generate` it is by default its place.
    **options: As of `generate`.

  Returns:
    The cycles. Nothing is compiled before the first is asked for.

  Raises:
    ValueError: An option or the prompt is wrong.
    TypeError: There is no such option.
  """
  config = decode_config(pair, **options)
  (read,) = read_prompts(
    pair, config, [prompt], template=template, items=[item]
  )
  return _stream(pair, config, read)


def _stream(pair, config, prompt) -> Iterator[Cycle]:
  programs.keep_programs()
  batch = Batch(pair, config, 1, len(prompt.tokens))
  batch.insert([prompt], 0)
  tokens: list[int] = []
  cycle, end = 0, None
  while end is None and not batch.state.done[0]:
    batch.step()
    records, before = jax.device_get(batch.state.records), len(tokens)
    tokens = records.tokens[0, : records.kept[0]].tolist()
    end = stop_after(pair, tokens, config.stop)
    new = tokens[before:end]
    yield Cycle(new, min(int(records.accepted[0, cycle]) - 1, len(new)))
    cycle += 1
  _warn(int(batch.state.records.faults[0]), False, cycle)


def decode_all(
  pair: Pair,
  config: DecodeConfig,
  prompts: Sequence[Prompt],
  *,
  progress: bool | None = None,
  step: Callable[[Batch], object] | None = None,
) -> Generation:
  """Decodes prompts, and puts what they yield into one result.

  Args:
    pair: The models.
    config: How to decode.
    prompts: See `read_prompts`.
    progress: As in `generate`.
    step: As of `decode`.
  """
  programs.keep_programs()
  longest = max(len(prompt.tokens) for prompt in prompts)
  batch = Batch(pair, config, min(config.batch_size, len(prompts)), longest)
  if progress is None:
    progress = sys.stderr.isatty() and len(prompts) > batch.size
  records = []
  with bar(len(prompts), "prompts") if progress else nullcontext() as shown:
    begin = time.perf_counter()
    for row in decode(batch, prompts, step):
      records.append(row)
      if shown:
        shown.advance()
    seconds = time.perf_counter() - begin
  compiling = batch.seconds["compile"]
  result = _result(pair, config, records, seconds - compiling, compiling)
  _warn(result.faults, result.idle, result.cycles)
  return result


def _warn(faults: int, idle: bool, cycles: int) -> None:
  """Warns of broken cycles, and of a run that drafted nothing."""
  for wrong, text in (
    (faults, f"{faults} cycles met a fault: {FAULT}"),
    (idle, f"none of {cycles} cycles drafted anything: {IDLE}"),
  ):
    if wrong:
      warnings.warn(text, RuntimeWarning, stacklevel=4)


def _result(pair, config, records, seconds, compiling) -> Generation:
  """Returns the records of all prompts put together."""

  def cycles(column):
    return [column(row)[0, : row.cycles[0]] for row in records]

  tokens = [row.tokens[0, : row.kept[0]].tolist() for row in records]
  tokens = [row[: stop_after(pair, row, config.stop)] for row in tokens]
  return Generation(
    tokens=tokens,
    accepted=cycles(lambda row: row.accepted),
    drafted=cycles(lambda row: row.drafted),
    expected={
      rule.name: cycles(lambda row, name=rule.name: row.expected[name])
      for rule in config.panel
    },
    stops=np.sum([row.stops[0] for row in records], axis=0),
    faults=sum(int(row.faults[0]) for row in records),
    trace=[trace_of(row) for row in records] if config.trace else None,
    seconds=seconds,
    compile_seconds=compiling,
    config=config,
    pair=pair,
  )


def read_prompts(
  pair: Pair,
  config: DecodeConfig,
  prompts: Prompts,
  *,
  template: str = "raw",
  items: Sequence[int] | None = None,
) -> list[Prompt]:
  """Returns prompts as tokens, with their numbers; see `generate`."""
  limit = config.max_new_tokens
  encoded = encode(pair, prompts, template, limit)
  if items is None:
    items = [*range(len(encoded))]
  items = _integers(items, SEEDS, "items")
  if len(items) != len(encoded):
    raise ValueError(
      f"items={brief(items)}: give {len(encoded)} numbers, one a prompt"
    )
  return [
    Prompt(tokens, item, limit)
    for tokens, item in zip(encoded, items, strict=True)
  ]


def encode(pair: Pair, texts, template: str, limit: int) -> list[list[int]]:
  """Returns prompts as token ids; refuses those that cannot be decoded.

  Args:
    pair: The models.
    texts: Strings, messages or token ids; or a single string or conversation.
    template: How strings become tokens.
    limit: New tokens at most.
  """
  if isinstance(texts, str) or _is_messages(texts):
    texts = [texts]
  if isinstance(texts, bytes | Mapping) or not hasattr(texts, "__iter__"):
    raise ValueError(
      f"prompts: give a text, messages, or a list, not {brief(texts)}"
    )
  config = pair.target.config
  encoded = []
  for i, prompt in enumerate(texts):
    if isinstance(prompt, str):
      prompt = templates.encode(template, pair.tokenizer, [prompt])
    elif _is_messages(prompt):
      name = "chat" if template == "raw" else template
      prompt = templates.encode_messages(pair.tokenizer, prompt, name)
    tokens = _integers(prompt, config.vocab_size, f"prompt {i}")
    if not tokens:
      raise ValueError(
        f"prompt {i} is empty: give at least one token (a start token, such as"
        f" {config.bos_token_id})"
      )
    if len(tokens) + limit > config.max_position_embeddings:
      raise ValueError(
        f"prompt {i} of {len(tokens)} tokens and max_new_tokens={limit} do not"
        f" fit in the model's {config.max_position_embeddings} positions:"
        " shorten one or the other"
      )
    encoded.append(tokens)
  if not encoded:
    raise ValueError("there are no prompts")
  return encoded


def _is_messages(prompt) -> bool:
  return isinstance(prompt, list | tuple) and any(
    isinstance(message, Mapping) for message in prompt
  )


def _integers(values, below: int, where: str) -> list[int]:
  """Returns integers from 0 up to `below`, of a list or an array."""
  if hasattr(values, "tolist"):
    values = values.tolist()
  integer = checks.integer(0, below - 1)
  return [*checks.list_of(integer)(values, where)]
