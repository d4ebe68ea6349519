"""transformers' generate at the shape of Llama-3.1-8B, for comparison.

    python -m benchmarks.gpu_transformers
    python -m benchmarks.gpu_transformers --toy

Random weights in bfloat16, 128 tokens of prompt, as `benchmarks.gpu` has them;
milliseconds a token of plain sampling, by the difference of a long and a short
generation after a warm-up, for one row and for 16. It needs a PyTorch that sees
the GPU, and a process of its own: both take the memory they find.
"""

import importlib.util
import sys
import time

import transformers

THERE = importlib.util.find_spec("torch") is not None
if THERE:
  import torch

LENGTHS = 32, 128  # new tokens
TOY_LENGTHS = 4, 64
ROUNDS = 3
SHAPE = {
  "hidden_size": 4096,
  "intermediate_size": 14336,
  "num_hidden_layers": 32,
  "num_attention_heads": 32,
  "num_key_value_heads": 8,
  "vocab_size": 128256,
  "max_position_embeddings": 131072,
  "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
}
TOY = SHAPE | {
  "hidden_size": 32,
  "intermediate_size": 48,
  "num_hidden_layers": 2,
  "num_attention_heads": 4,
  "num_key_value_heads": 2,
  "vocab_size": 64,
}


def random_model(shape: dict, device: str):
  """A model of random weights."""
  config = transformers.LlamaConfig(
    **shape, bos_token_id=None, eos_token_id=None, pad_token_id=0
  )
  before = torch.get_default_dtype()
  torch.set_default_dtype(torch.bfloat16)
  try:
    with torch.device(device):
      return transformers.LlamaForCausalLM(config).eval()
  finally:
    torch.set_default_dtype(before)


def seconds(model, prompt, new: int) -> float:
  """Of one generation of `new` tokens a row."""
  _wait(prompt)
  begin = time.perf_counter()
  model.generate(
    prompt,
    attention_mask=torch.ones_like(prompt),
    do_sample=True,
    top_k=0,
    min_new_tokens=new,
    max_new_tokens=new,
    pad_token_id=0,
  )
  _wait(prompt)
  return time.perf_counter() - begin


def _wait(tensor):
  if tensor.is_cuda:
    torch.cuda.synchronize()


def main(arguments: list[str]) -> int:
  """The command; returns its exit status."""
  if {"--help", "-h"} & set(arguments):
    print(__doc__.strip())
    return 0
  if set(arguments) - {"--toy"}:
    print(f"unexpected arguments {arguments}: --toy, or none", file=sys.stderr)
    return 2
  if not THERE:
    print("that needs PyTorch, which is not installed here", file=sys.stderr)
    return 2
  toy = bool(arguments)
  if not toy and not torch.cuda.is_available():
    print("PyTorch sees no GPU here: --toy to try it out", file=sys.stderr)
    return 2
  device = "cpu" if toy else "cuda"
  name = device if toy else torch.cuda.get_device_name()
  print(
    f"{name}, torch {torch.__version__}, transformers"
    f" {transformers.__version__}"
  )
  torch.manual_seed(0)
  model = random_model(TOY if toy else SHAPE, device)
  vocabulary = model.config.vocab_size
  prompt = torch.randint(0, vocabulary, (1, 128), device=device)
  few, new = TOY_LENGTHS if toy else LENGTHS
  for rows in (1, 16):
    many = prompt.repeat(rows, 1)
    seconds(model, many, few)
    # By turns: who else is on the machine then meets short and long alike.
    turns = [
      [seconds(model, many, length) for length in (few, new)]
      for _ in range(ROUNDS)
    ]
    short, long = (min(times) for times in zip(*turns, strict=True))
    each = 1e3 * (long - short) / (new - few)
    print(f"plain, {rows} rows: {each:.3f} ms a token of each", flush=True)
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
