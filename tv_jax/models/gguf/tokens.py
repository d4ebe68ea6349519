"""Makes a tokenizer.json of a GGUF file's vocabulary."""

from collections.abc import Callable

from tv_jax.edge.reading import brief
from tv_jax.models.gguf.config import TOKENS
from tv_jax.models.gguf.reader import File

# Types of tokens.
_UNKNOWN, _CONTROL, _USERS = 2, 3, 4

# How texts are cut before pairs are merged, in the words of Hugging Face's
# tokenizers. All of them end by writing bytes as letters.
_GPT2 = (
  r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
)
_LLAMA3 = (
  r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,%d}"
  r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_CUTS = {
  "gpt-2": (_GPT2,),
  "smollm": (r"\p{N}", _GPT2),
  "llama-bpe": (_LLAMA3 % 3,),
  "qwen2": (_LLAMA3.replace("{1,%d}", ""),),
  "default": (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
}
_COMPOSED = {"qwen2"}  # letters and their accents become one
_WHOLE = {"llama-bpe"}  # a piece that is a token is not merged again
_BEGUN = {"llama-bpe"}  # unless the file says otherwise, a text is begun
# No token is so long; how it may be cut takes its square.
_LONGEST = 1000
_SPACE = "\u2581"


def tokenizer(file: File) -> dict | None:
  """Returns what a tokenizer.json would hold; None if the file has no tokens.

  Raises:
    ValueError: In one line, what is missing, unknown or unsupported.
  """
  model = file.metadata.get("tokenizer.ggml.model")
  if model is None or model == "none":
    return None
  if not isinstance(model, str) or model not in _MODELS:
    raise file.error(
      f"tokenizer.ggml.model={brief(model)} is not supported, only"
      f" {', '.join(map(repr, _MODELS))}",
    )
  tokens, types = _tokens(file), _numbers(file, "token_type")
  parts = _MODELS[model](file, tokens)
  return {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [
      {
        "id": token,
        "content": tokens[token],
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": kind != _USERS,
      }
      for token, kind in enumerate(types)
      if kind in (_UNKNOWN, _CONTROL, _USERS)
    ],
    "post_processor": _around(file, tokens, begun=parts.pop("begun")),
    **parts,
  }


def settings(file: File) -> dict | None:
  """Returns what a tokenizer_config.json would hold."""
  if (made := tokenizer(file)) is None:
    return None
  tokens = _tokens(file)
  special = [x["content"] for x in made["added_tokens"] if x["special"]]
  found = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "clean_up_tokenization_spaces": False,
    "model_max_length": file.first("context_length"),
    "additional_special_tokens": special,
    "chat_template": file.metadata.get("tokenizer.chat_template"),
  }
  for name, theirs in (
    ("bos", "bos"),
    ("eos", "eos"),
    ("unknown", "unk"),
    ("padding", "pad"),
  ):
    if (token := _special(file, name, tokens)) is not None:
      found[f"{theirs}_token"] = token
  return {name: value for name, value in found.items() if value is not None}


def _tokens(file: File) -> list[str]:
  """Returns the vocabulary, each text once."""
  tokens = file.metadata.get(TOKENS)
  if not isinstance(tokens, list) or not tokens:
    raise file.error(f"{TOKENS} is missing, or no list of texts")
  if len(set(tokens)) < len(tokens):
    known: set[str] = set()
    twice = next(x for x in tokens if x in known or known.add(x))
    raise file.error(f"{TOKENS} has {brief(twice)} twice")
  return tokens


def _numbers(file: File, name: str) -> list:
  """Returns a number for each token."""
  numbers = file.metadata.get(f"tokenizer.ggml.{name}")
  if not isinstance(numbers, list) or len(numbers) != len(_tokens(file)):
    raise file.error(
      f"tokenizer.ggml.{name} is missing, or not one number a token"
    )
  return numbers


def _special(file: File, name: str, tokens: list[str]) -> str | None:
  """Returns the text of the token that has this part."""
  token = file.metadata.get(f"tokenizer.ggml.{name}_token_id")
  if token is None:
    return None
  if type(token) is not int or not 0 <= token < len(tokens):
    raise file.error(
      f"tokenizer.ggml.{name}_token_id={brief(token)} is none of the"
      f" {len(tokens)} tokens",
    )
  return tokens[token]


def _flag(file: File, name: str, default: bool) -> bool:
  """Returns a setting of the tokenizer's."""
  value = file.metadata.get(f"tokenizer.ggml.{name}", default)
  if not isinstance(value, bool):
    raise file.error(f"tokenizer.ggml.{name}={brief(value)} is no boolean")
  return value


def _around(file: File, tokens: list[str], begun: bool) -> dict | None:
  """Returns what puts tokens before and after a text."""
  parts: list[dict] = [{"Sequence": {"id": "A", "type_id": 0}}]
  special = {}
  for name, default, at in (("bos", begun, 0), ("eos", False, 2)):
    if not _flag(file, f"add_{name}_token", default):
      continue
    if (text := _special(file, name, tokens)) is None:
      raise file.error(f"tokenizer.ggml.{name}_token_id is missing")
    parts.insert(at, {"SpecialToken": {"id": text, "type_id": 0}})
    special[text] = {"id": text, "ids": [tokens.index(text)], "tokens": [text]}
  if not special:
    return None
  return {
    "type": "TemplateProcessing",
    "single": parts,
    "pair": [*parts, *parts],
    "special_tokens": special,
  }


def _bytes(file: File, tokens: list[str]) -> dict:
  """Returns the parts of a tokenizer that merges bytes."""
  pre = file.metadata.get("tokenizer.ggml.pre")
  if not isinstance(pre, str) or pre not in _CUTS:
    raise file.error(
      f"tokenizer.ggml.pre={brief(pre)} is not supported, only"
      f" {', '.join(map(repr, _CUTS))}",
    )
  merges = file.metadata.get("tokenizer.ggml.merges")
  if not isinstance(merges, list):
    raise file.error("tokenizer.ggml.merges is missing, or no list of texts")
  known, pairs = set(tokens), []
  for merge in merges:
    left, _, right = merge.partition(" ")
    if not {left, right, left + right} <= known:
      raise file.error(
        f"tokenizer.ggml.merges has {brief(merge)}: no pair of tokens"
      )
    pairs.append([left, right])
  letters = {"add_prefix_space": False, "trim_offsets": True}
  letters = {"type": "ByteLevel", **letters, "use_regex": False}
  return {
    "begun": pre in _BEGUN,
    "normalizer": {"type": "NFC"} if pre in _COMPOSED else None,
    "pre_tokenizer": {
      "type": "Sequence",
      "pretokenizers": [
        *(
          {
            "type": "Split",
            "pattern": {"Regex": cut},
            "behavior": "Isolated",
            "invert": False,
          }
          for cut in _CUTS[pre]
        ),
        letters,
      ],
    },
    "decoder": letters,
    "model": _merging(tokens, pairs, ignore_merges=pre in _WHOLE),
  }


def _pieces(file: File, tokens: list[str]) -> dict:
  """Returns the parts of a SentencePiece tokenizer that merges letters."""
  for name in ("remove_extra_whitespaces", "precompiled_charsmap"):
    whole = f"tokenizer.ggml.{name}"
    if file.metadata.get(whole, False) or whole in file.metadata:
      raise file.error(f"{whole} is not supported")
  if (longest := max(map(len, tokens), default=0)) > _LONGEST:
    raise file.error(f"a token of {longest} letters is not supported")
  scores = _numbers(file, "scores")
  rank = dict(zip(tokens, range(len(tokens)), strict=True))
  pairs = [
    (-scores[rank[text]], rank[text[:cut]], rank[text[cut:]])
    for text in tokens
    for cut in range(1, len(text))
    if text[:cut] in rank and text[cut:] in rank
  ]
  replace = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
  spoken = {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}
  begins = _flag(file, "add_space_prefix", True)
  prepend = [{"type": "Prepend", "prepend": _SPACE}] if begins else []
  strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
  steps = [spoken, {"type": "ByteFallback"}, {"type": "Fuse"}]
  return {
    "begun": True,
    "normalizer": {"type": "Sequence", "normalizers": [*prepend, replace]},
    "pre_tokenizer": None,
    "decoder": {
      "type": "Sequence",
      "decoders": [*steps, *([strip] if begins else [])],
    },
    "model": _merging(
      tokens,
      [[tokens[left], tokens[right]] for _, left, right in sorted(pairs)],
      unk_token=_special(file, "unknown", tokens),
      fuse_unk=True,
      byte_fallback=True,
    ),
  }


def _merging(tokens: list[str], pairs: list[list[str]], **changes) -> dict:
  """Returns a model that merges pairs, the first of them first."""
  return {
    "type": "BPE",
    "dropout": None,
    "unk_token": None,
    "continuing_subword_prefix": None,
    "end_of_word_suffix": None,
    "fuse_unk": False,
    "byte_fallback": False,
    "ignore_merges": False,
    "vocab": {text: token for token, text in enumerate(tokens)},
    "merges": pairs,
  } | changes


_MODELS: dict[str, Callable[[File, list[str]], dict]] = {
  "gpt2": _bytes,
  "llama": _pieces,
}
