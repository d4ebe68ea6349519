r"""Has a judge grade the answers of finished runs, and prints its ratings.

  pip install -e '.[judge]'
  export JUDGE_KEY=...
  python -m experiments.judge runs/llama3_1b_8b \
    --judge_url=https://api.openai.com/v1 --judge_model=gpt-4o \
    --judge_key=JUDGE_KEY

Any endpoint with OpenAI's chat completions will do, a local server as well.
Every grade goes to grades.jsonl in the run's folder, with the full reply. The
same command asks only for grades that are missing.
"""

from absl import flags, logging

from experiments.judge import client
from tv_jax.edge import cli

_URL = flags.DEFINE_string(
  "judge_url",
  "",
  "The endpoint's base, as http://localhost:8000 or https://api.openai.com/v1.",
)
_MODEL = flags.DEFINE_string("judge_model", "", "The model that judges.")
_KEY = flags.DEFINE_string(
  "judge_key",
  "",
  "NAME of the variable of the environment that holds the key, which is"
  " written nowhere; without it none is sent.",
)
_RUNS = flags.DEFINE_integer(
  "judge_runs", 3, "How often to grade each answer.", lower_bound=1
)
_WORKERS = flags.DEFINE_integer(
  "judge_workers", 4, "Requests at a time.", lower_bound=1
)
_TIMEOUT = flags.DEFINE_float(
  "judge_timeout", 120.0, "Seconds that the endpoint may be silent."
)
_TASKS = cli.define_names("judge_tasks", "mt_bench", "Whose answers to grade.")
# As in other commands.
_WORKDIR = flags.DEFINE_string(
  "workdir", None, "The folder, in FOLDER's place."
)
flags.DEFINE_alias("tasks", _TASKS.name)


def main(heard: cli.Heard, arguments: list[str]) -> int:
  """Grades, and prints tables; returns 1 if grades are missing in the end."""
  logging.set_verbosity(logging.WARNING)
  folders = [*arguments, *filter(None, [_WORKDIR.value])]
  if len(folders) != 1:
    raise ValueError(
      "give the folder of a run, or of several: python -m experiments.judge"
      " FOLDER"
    )
  endpoint = client.endpoint(
    _URL.value, _MODEL.value, _KEY.value, _TIMEOUT.value
  )
  with heard.deaf():
    # Slow to import: a bad flag is answered before.
    from experiments.judge import command
  return command.run(
    heard,
    folders[0],
    endpoint,
    tasks=cli.split(_TASKS.value) or (),
    runs=_RUNS.value,
    workers=_WORKERS.value,
  )


if __name__ == "__main__":
  cli.run("experiments.judge", main)
