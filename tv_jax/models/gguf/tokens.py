"""Makes a tokenizer from a GGUF file's vocabulary.

transformers also reads GGUF files, but ignores `tokenizer.ggml.pre`, which says
how texts are split before pairs are merged.
"""

from tokenizers import (
  AddedToken,
  Regex,
  Tokenizer,
  decoders,
  normalizers,
  pre_tokenizers,
  processors,
)
from tokenizers.models import BPE

from tv_jax.io.reading import brief
from tv_jax.models.gguf.reader import File

# Types of tokens.
_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4

# Names of special tokens in transformers.
_ROLES = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}

# Patterns that split a text, by `tokenizer.ggml.pre`.
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
_SPACE = "\u2581"


def read_tokenizer(file: File):
  """Returns a transformers tokenizer for a file, or None if it defines none.

  Raises:
    ValueError: If an entry is missing, unknown or unsupported.
  """
  kind = file.metadata.get("tokenizer.ggml.model", "none")
  if kind == "none":
    return None
  if kind not in _KINDS:
    raise file.error(
      f"tokenizer.ggml.model={brief(kind)} is not supported, only"
      f" {', '.join(map(repr, _KINDS))}",
    )
  tokens = _get(file, "tokens")
  vocabulary = {text: token for token, text in enumerate(tokens)}
  if len(vocabulary) < len(tokens):
    raise file.error("tokenizer.ggml.tokens has a text twice")
  tokenizer, begun = _KINDS[kind](file, vocabulary)
  types = _get(file, "token_type")

  def of_type(*wanted):
    pairs = zip(tokens, types, strict=True)
    return [text for text, token_type in pairs if token_type in wanted]

  special = of_type(_UNKNOWN, _CONTROL)
  tokenizer.add_special_tokens(special)
  tokenizer.add_tokens(
    [AddedToken(text, normalized=False) for text in of_type(_USER_DEFINED)]
  )
  named = {}
  for name, theirs in _ROLES.items():
    token = file.metadata.get(f"tokenizer.ggml.{name}_token_id")
    if token is not None:
      named[f"{theirs}_token"] = tokens[token]
  first, last = (
    named[f"{name}_token"] if _flag(file, f"add_{name}_token", default) else ""
    for name, default in (("bos", begun), ("eos", False))
  )
  tokenizer.post_processor = processors.TemplateProcessing(
    single=[text for text in (first, "$A", last) if text],
    special_tokens=[(x, vocabulary[x]) for x in {first, last} if x],
  )
  import transformers

  wrapped = transformers.PreTrainedTokenizerFast(
    tokenizer_object=tokenizer,
    clean_up_tokenization_spaces=False,
    model_max_length=file.first("context_length"),
    additional_special_tokens=special,
    chat_template=file.metadata.get("tokenizer.chat_template"),
    **named,
  )
  wrapped.name_or_path = str(file.path)
  return wrapped


def _get(file: File, name: str):
  if (value := file.metadata.get(f"tokenizer.ggml.{name}")) is None:
    raise file.error(f"tokenizer.ggml.{name} is missing")
  return value


def _flag(file: File, name: str, default: bool) -> bool:
  return file.metadata.get(f"tokenizer.ggml.{name}", default)


def _byte_pairs(file: File, vocabulary: dict) -> tuple[Tokenizer, bool]:
  """Returns a byte-level BPE tokenizer, and whether it adds BOS by default."""
  pre = file.metadata.get("tokenizer.ggml.pre")
  if pre not in _CUTS:
    raise file.error(
      f"tokenizer.ggml.pre={brief(pre)} is not supported, only"
      f" {', '.join(map(repr, _CUTS))}",
    )
  llama3 = pre == "llama-bpe"  # a piece that is a token stays whole
  merges = [tuple(pair.split(" ", 1)) for pair in _get(file, "merges")]
  tokenizer = Tokenizer(BPE(vocabulary, merges, ignore_merges=llama3))
  if pre == "qwen2":  # joins letters and their accents
    tokenizer.normalizer = normalizers.NFC()
  tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
    [
      *(pre_tokenizers.Split(Regex(cut), "isolated") for cut in _CUTS[pre]),
      pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
  )
  tokenizer.decoder = decoders.ByteLevel()
  return tokenizer, llama3


def _sentence_pieces(file: File, vocabulary: dict) -> tuple[Tokenizer, bool]:
  """Returns a SentencePiece tokenizer, and whether it adds BOS by default."""
  scores = _get(file, "scores")
  merges = sorted(
    (-scores[token], vocabulary[text[:cut]], vocabulary[text[cut:]])
    for text, token in vocabulary.items()
    for cut in range(1, len(text))
    if text[:cut] in vocabulary and text[cut:] in vocabulary
  )
  texts = [*vocabulary]
  unknown = file.metadata.get("tokenizer.ggml.unknown_token_id")
  tokenizer = Tokenizer(
    BPE(
      vocabulary,
      [(texts[left], texts[right]) for _, left, right in merges],
      unk_token=None if unknown is None else texts[unknown],
      fuse_unk=True,
      byte_fallback=True,
    )
  )
  spaced = _flag(file, "add_space_prefix", True)
  prepend = [normalizers.Prepend(_SPACE)] if spaced else []
  strip = [decoders.Strip(" ", 1, 0)] if spaced else []
  tokenizer.normalizer = normalizers.Sequence(
    [*prepend, normalizers.Replace(" ", _SPACE)]
  )
  tokenizer.decoder = decoders.Sequence(
    [
      decoders.Replace(_SPACE, " "),
      decoders.ByteFallback(),
      decoders.Fuse(),
      *strip,
    ]
  )
  return tokenizer, True


_KINDS = {"gpt2": _byte_pairs, "llama": _sentence_pieces}
