"""The tokenizer: byte-level BPE with a chat format."""

import json
import pathlib
import random
import sysconfig

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from training import tasks
from training.tasks.conversation import Conversation

# The first token ids, in this order.
SPECIAL = ("<pad>", "<s>", "<|end|>", "<|user|>", "<|assistant|>")
PAD, BOS, END, USER, ASSISTANT = range(len(SPECIAL))

CHAT_TEMPLATE = (
  "{{ bos_token }}{% for message in messages %}"
  "<|{{ message['role'] }}|>{{ message['content'] }}<|end|>"
  "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def texts(conversation: Conversation) -> list[tuple[str, bool]]:
  """Splits a conversation into pieces, and says which are answers.

  The joined pieces are the output of CHAT_TEMPLATE.
  """
  pieces, start = [], SPECIAL[BOS]
  for turn, answer in zip(
    conversation.turns, conversation.answers, strict=True
  ):
    user, end, assistant = (SPECIAL[i] for i in (USER, END, ASSISTANT))
    pieces.append((f"{start}{user}{turn}{end}{assistant}", False))
    pieces.append((f"{answer}{end}", True))
    start = ""
  return pieces


def train(
  vocab_size: int, conversations: int, source: str
) -> tokenizers.Tokenizer:
  """Trains on conversations, and on a fifth as much source text.

  Each digit is a token: numbers are read and written digit by digit.
  """
  rng = random.Random("tokenizer/0")
  names = list(tasks.TASKS)
  corpus = []
  for i in range(conversations):
    conversation = tasks.generate(names[i % len(names)], rng)
    corpus += [*conversation.turns, *conversation.answers]
  share = sum(map(len, corpus)) // 5
  tokenizer = tokenizers.Tokenizer(models.BPE())
  tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
    [
      pre_tokenizers.Digits(individual_digits=True),
      pre_tokenizers.ByteLevel(add_prefix_space=False),
    ]
  )
  tokenizer.decoder = decoders.ByteLevel()
  trainer = trainers.BpeTrainer(
    vocab_size=vocab_size,
    special_tokens=list(SPECIAL),
    initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    show_progress=False,
  )
  tokenizer.train_from_iterator([*corpus, source[:share]], trainer)
  tokenizer.post_processor = processors.TemplateProcessing(
    single=f"{SPECIAL[BOS]} $A", special_tokens=[(SPECIAL[BOS], BOS)]
  )
  return tokenizer


def read_source(size: int) -> str:
  """Reads single-file modules of Python's standard library, in name order.

  Reads at most `size` bytes. The text differs between versions of Python.
  """
  folder = pathlib.Path(sysconfig.get_path("stdlib"))
  texts, room = [], size
  for path in sorted(folder.glob("*.py")):
    # The excluded file is generated at installation and differs by machine.
    if room > 0 and not path.name.startswith("_sysconfigdata"):
      raw = path.read_bytes()[:room]
      texts.append(raw.decode("utf-8", errors="ignore"))
      room -= len(raw)
  return "\n".join(texts)


def save(
  tokenizer: tokenizers.Tokenizer, directory: pathlib.Path, length: int
) -> None:
  """Writes the tokenizer for AutoTokenizer, and the ids of special tokens."""
  import transformers

  wrapped = transformers.PreTrainedTokenizerFast(
    tokenizer_object=tokenizer,
    bos_token=SPECIAL[BOS],
    eos_token=SPECIAL[END],
    pad_token=SPECIAL[PAD],
    additional_special_tokens=[SPECIAL[USER], SPECIAL[ASSISTANT]],
    chat_template=CHAT_TEMPLATE,
    model_max_length=length,
    clean_up_tokenization_spaces=False,
  )
  wrapped.save_pretrained(directory)
  ends = {"bos_token_id": BOS, "eos_token_id": END, "pad_token_id": PAD}
  text = json.dumps(ends, indent=2) + "\n"
  (directory / "generation_config.json").write_text(text)
