"""transformers' generate at the shape of Llama-3.1-8B, for comparison.

    python -m benchmarks.gpu_transformers
    python -m benchmarks.gpu_transformers --toy

Random weights in bfloat16 and prompts of 128 tokens, as in `benchmarks.gpu`.
Milliseconds per token of plain sampling, by the difference of a long and a
short generation after a warm-up, for one row and for 16. It needs a PyTorch
that sees the GPU, and a process of its own: both take the memory they find.
"""

import importlib.util
import time

from benchmarks import common, gpu_shapes

THERE = all(map(importlib.util.find_spec, ("torch", "transformers")))
if THERE:
  import torch
  import transformers

LENGTHS = 32, 128  # new tokens
TOY_LENGTHS = 4, 64
ROUNDS = 3


def shape(name: str) -> dict:
  """Returns one of our shapes, as transformers takes it."""
  raw = dict(gpu_shapes.MODELS[name])
  theta = raw.pop("rope_theta", 10000.0)
  raw.pop("rope_scaling", None)  # no other work, and no other time
  raw.pop("model_type")
  return raw | {
    "rope_parameters": {"rope_type": "default", "rope_theta": theta}
  }


def random_model(sizes: dict, device: str):
  """Makes a model of random weights."""
  config = transformers.LlamaConfig(
    **sizes, bos_token_id=None, eos_token_id=None, pad_token_id=0
  )
  before = torch.get_default_dtype()
  torch.set_default_dtype(torch.bfloat16)
  try:
    with torch.device(device):
      return transformers.LlamaForCausalLM(config).eval()
  finally:
    torch.set_default_dtype(before)


def seconds(model, prompt, new: int) -> float:
  """Times one generation of `new` tokens per row."""
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


def main(arguments: list[str]) -> None:
  """Loads, times and prints."""
  parser = common.Parser("gpu_transformers", __doc__)
  parser.add_argument("--toy", action="store_true", help="without a GPU")
  toy = parser.parse_args(arguments).toy
  if not THERE:
    raise ValueError("that needs PyTorch, which is not installed here")
  if not toy and not torch.cuda.is_available():
    raise ValueError("PyTorch sees no GPU here: --toy to try it out")
  device = "cpu" if toy else "cuda"
  name = device if toy else torch.cuda.get_device_name()
  print(
    f"{name}, torch {torch.__version__}, transformers"
    f" {transformers.__version__}"
  )
  torch.manual_seed(0)
  model = random_model(shape("toy" if toy else "Llama-3.1-8B"), device)
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


if __name__ == "__main__":
  common.run("gpu_transformers", main)
