"""What a run is told: every field of a config, frozen."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Models:
  """The pair.

  Attributes:
    target: A directory, a hub repository, or "bundled/target".
    draft: Likewise; "bundled/draft", "bundled/draft_weak" or "bundled/eagle".
    draft_kind: One of `drafting.KINDS`.
    dtype: Of both; "": as stored, but float32 on a CPU; "int8": of the weights
      alone.
    revision: A commit of the target's repository; "": the newest.
    draft_revision: Likewise.
    template: How questions become prompts: "chat", "vicuna" or "raw".
    devices: To split the target over; 1: no splitting.
    shard_draft: Whether to split an independent draft as well.
  """

  target: str
  draft: str
  draft_kind: str
  dtype: str
  revision: str
  draft_revision: str
  template: str
  devices: int
  shard_draft: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timing:
  """Speed, measured apart: one question at a time, after warm-up.

  Attributes:
    per_task: Questions of each task; 0: measure no speed.
    rounds: How often each is asked.
    stages: The trees on which the stages of a cycle are timed as well, and of
      plain decoding; their programs take as long to compile as all others. In a
      config "all" stands for all trees, "first" for the first.
  """

  per_task: int
  rounds: int
  stages: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explorer:
  """What is kept for the report's tree explorer.

  Attributes:
    per_task: Questions of each task whose first turn is traced; 0: none.
    cycles: First cycles of each.
  """

  per_task: int
  cycles: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
  """A whole run: every field of a config.

  Attributes:
    experiment: Its name, and that of its folder.
    models: The pair.
    questions: A file of questions, "spec_bench:" and the path of Spec-Bench's
      own, which is then checked to be whole, or "minibench", or "python", which
      is for the template "raw".
    tasks: Of these categories alone, MT-Bench's being one, "mt_bench"; empty:
      of all that the file has.
    per_task: Questions of each task; 0: all.
    exact_match: Whether references are the answers' last lines.
    trees: What `tv_jax.tree.parse` reads.
    verifiers: Names, or module:function.
    proposals: How siblings are drawn.
    temperatures: 0 is greedy.
    seeds: Of all draws.
    plain: Whether to decode plainly, too.
    baseline: The rule that all are compared with on the same drafts.
    draft_temperature: 0: the target's, or what the file of a tuned tree says
      in proportion to it, but not below a floor.
    top_k: 0: all tokens.
    top_p: 1: all tokens.
    max_new_tokens: In an answer.
    max_tokens: In a prompt and its answer; 0: what the models can take.
    batch_size: Rows decoded together.
    padded_to: Prompts are padded to at least so many tokens. Then one program
      serves second turns too.
    timing: Speed.
    explorer: What can be looked at.
  """

  experiment: str
  models: Models
  questions: str
  tasks: tuple[str, ...]
  per_task: int
  exact_match: bool
  trees: tuple[str, ...]
  verifiers: tuple[str, ...]
  proposals: tuple[str, ...]
  temperatures: tuple[float, ...]
  seeds: tuple[int, ...]
  plain: bool
  baseline: str
  draft_temperature: float
  top_k: int
  top_p: float
  max_new_tokens: int
  max_tokens: int
  batch_size: int
  padded_to: int
  timing: Timing
  explorer: Explorer


def to_dict(settings: Run) -> dict:
  """What is kept with the results; `from_config` reads it again."""
  return dataclasses.asdict(settings)
