"""Reads a GGUF file's tensors as a checkpoint's, under Hugging Face's names."""

import re

import numpy as np

from tv_jax.edge.reading import brief, listed, shown
from tv_jax.models.gguf import about, header, tensors
from tv_jax.models.gguf.header import Header, Tensor

# Names before their suffix, `.weight`.
_OUTSIDE = {
  "token_embd": "model.embed_tokens",
  "output_norm": "model.norm",
  "output": "lm_head",
}
_INSIDE = {
  "attn_norm": "input_layernorm",
  "attn_q": "self_attn.q_proj",
  "attn_k": "self_attn.k_proj",
  "attn_v": "self_attn.v_proj",
  "attn_q_norm": "self_attn.q_norm",
  "attn_k_norm": "self_attn.k_norm",
  "attn_output": "self_attn.o_proj",
  "ffn_norm": "post_attention_layernorm",
  "ffn_gate": "mlp.gate_proj",
  "ffn_up": "mlp.up_proj",
  "ffn_down": "mlp.down_proj",
}
_LAYER = re.compile(r"blk\.([0-9]{1,6})\.(\w+)")

# Architectures whose queries and keys have a head's real and imaginary parts
# side by side, and the metadata that counts the heads.
_INTERLEAVED = {
  "llama": {
    "attn_q": ("head_count",),
    "attn_k": ("head_count_kv", "head_count"),
  }
}


def name_of(own: str) -> str:
  """Returns a tensor's name as Hugging Face has it, or its own."""
  stem, _, suffix = own.rpartition(".")
  if layer := _LAYER.fullmatch(stem):
    if inside := _INSIDE.get(layer[2]):
      return f"model.layers.{int(layer[1])}.{inside}.{suffix}"
  elif stem in _OUTSIDE:
    return f"{_OUTSIDE[stem]}.{suffix}"
  return own


def contents(path) -> dict[str, tuple[Header, str, Tensor]]:
  """Returns a file's tensors by Hugging Face's names, all of which can be read.

  Raises:
    ValueError: In one line, all that cannot.
  """
  own = header.read(path)
  found, faults, end = {}, [], own.start
  step = own.alignment
  for name, tensor in own.tensors.items():
    theirs = name_of(name)
    if fault := tensors.fault(own, tensor):
      faults.append(f"{shown(name)} {fault}")
      break  # where the next one begins is not known
    if tensor.begin != end:
      faults.append(
        f"{shown(name)} begins at byte {tensor.begin}, not {end}, where the"
        " tensor before it ends"
      )
    end = -(-(tensor.begin + tensors.num_bytes(tensor)) // step) * step
    if name == about.FACTORS:  # a part of the configuration
      continue
    if theirs in found:
      faults.append(f"{shown(name)} is there twice")
    else:
      found[theirs] = (own, name, tensor)
  if faults:
    raise ValueError(
      f"{shown(path)} is truncated, or not supported: {listed(faults, '; ')}"
    )
  return found


def read(own: Header, name: str, tensor: Tensor) -> np.ndarray:
  """Reads one tensor of `contents` as float32 numbers."""
  value = tensors.read(own, tensor)
  part = name.rpartition(".")[0].rpartition(".")[2]
  kind = str(own.metadata.get("general.architecture"))
  counts = _INTERLEAVED.get(kind, {})
  if part not in counts or value.ndim != 2:
    return value
  heads = about.first(own, *(f"attention.{x}" for x in counts[part]))
  if type(heads) is not int or heads < 1 or len(value) % (2 * heads):
    raise ValueError(
      f"{shown(own.path)}: {shown(name)} has {len(value)} rows, which are not"
      f" those of {brief(heads)} heads"
    )
  value = value.reshape(heads, len(value) // heads // 2, 2, -1)
  return value.swapaxes(1, 2).reshape(tensor.shape)
