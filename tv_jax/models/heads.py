"""Heads that draft on a target's features: which kind one is of."""

from tv_jax.models import dspark, eagle, eagle3

# The fusing product's weights, which nothing but a head has.
FUSING = "fc.weight"
_NAMES = {"eagle": "an EAGLE-1", "eagle3": "an EAGLE-3", "dspark": "a DSpark"}


def kind_said(raw: dict) -> str | None:
  """Returns what kind of head a config.json says that it is of, if it does."""
  own = raw.get("architectures") == [*dspark.FORMAT.architectures]
  if own or "block_size" in raw:
    return "dspark"
  if raw.get("architectures") in [[x] for x in eagle3.FORMAT.architectures]:
    return "eagle3"
  if "target_layer_ids" in raw:
    return "eagle3"
  llama = raw.get("model_type") == eagle.FAMILY
  return "eagle" if "bias" in raw and llama else None


def kind_held(names) -> str | None:
  """Returns what kind of head a checkpoint's tensors are of, if of any."""
  if FUSING not in names:
    return None
  if dspark.NORM in names:
    return "dspark"
  return "eagle3" if eagle3.is_one(names) else "eagle"


def refuse_others(where, kind: str | None, wanted: str | None) -> None:
  """Refuses a head that is taken for something else.

  Args:
    where: What errors call it.
    kind: What it is; None: nothing says that it is a head.
    wanted: What it is to be; None: a model of its own.
  """
  if kind is not None and kind != wanted:
    raise ValueError(
      f"{where} is {_NAMES[kind]} head's, which drafts on a target's"
      f' features: give it as the draft, with draft_kind="{kind}"'
    )


def check_family(config, where, what) -> None:
  """Refuses families of which no heads are known: their layer is Llama's."""
  if config.model_type != eagle.FAMILY:
    raise ValueError(
      f"{where}: {what} of model_type={config.model_type!r} is not supported,"
      f" only {eagle.FAMILY!r}: draft with an independent model instead"
    )
