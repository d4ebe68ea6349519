"""Killed writers, torn lines, two writers, full disks."""

import errno
import json
import os
import random
import signal
import subprocess
import time

import pytest

from tests.stores import enter, item, one_line, program, run
from tv_jax.edge import disk
from tv_jax.edge.disk import StoreError
from tv_jax.runs import store as store_lib


def resume_torn(filled, tail, resume):
  """Tears the last line to its first bytes, or to others; makes it again."""
  path = filled / "items.jsonl"
  whole = path.read_bytes()
  start = whole.rindex(b"\n", 0, -1) + 1
  torn = tail if isinstance(tail, bytes) else whole[start : start + tail]
  path.write_bytes(whole[:start] + torn)
  assert store_lib.read(filled).items == (item(0), item(1))
  resume(filled)
  assert path.read_bytes() == whole
  assert store_lib.read(filled).items == (item(0), item(1), item(2))


def resume(folder):
  with enter(folder) as store:
    assert store.items == (item(0), item(1))
    store.append(item(2))


def test_torn_tails_of_every_length_are_cut(filled, monkeypatch):
  # What reaches the disk has its own test; here it would take seconds.
  monkeypatch.setattr(os, "fsync", lambda descriptor: None)
  line = (filled / "items.jsonl").read_bytes().split(b"\n")[2]
  for length in range(len(line) + 1):
    resume_torn(filled, length, resume)


@pytest.mark.parametrize(
  "tail",
  [
    b"\0" * 50,
    b"\0" * 50 + b"\n",
    b'{"task": "qa\0\0\0\0\n',
    b"\xff\xc3\n",
    b"7\0\0\0\n",  # a number in UTF-32
    b"\n",
  ],
)
def test_bytes_that_are_no_json_are_cut(filled, tail):
  resume_torn(filled, tail, resume)


def test_the_cut_is_durable(filled, monkeypatch):
  calls = []
  for name in ("ftruncate", "fsync", "write"):
    real = getattr(os, name)

    def spy(*arguments, name=name, real=real):
      calls.append(name)
      return real(*arguments)

    monkeypatch.setattr(os, name, spy)
  with (filled / "items.jsonl").open("ab") as file:
    file.write(b'{"task"')
  with enter(filled) as store:
    assert calls[-2:] == ["ftruncate", "fsync"]
    calls.clear()
    store.append(item(3))
    assert calls == ["write", "fsync"]
    calls.clear()
    store.finish()
    assert calls == ["fsync", "fsync"]  # the file and its name
    calls.clear()
    store.append(item(4))
    assert calls == ["fsync", "write", "fsync"]  # DONE is gone before


WRITER = """
if sys.argv[3] == "slow":  # a disk that takes its time: kills tear lines
  write = os.write
  def slow(descriptor, data):
    time.sleep(0.001)
    return write(descriptor, data[:4000])
  os.write = slow
with enter(sys.argv[1]) as unit:
  for question in range(int(sys.argv[2])):
    one = item(question, 1 + question * 7919 % 20_000)
    if one.key not in unit:
      unit.append(one)
  unit.finish()
"""


def kill(process, path, size, moment):
  """Kills a writer at a moment, or as the file grows to a size."""
  limit = time.monotonic() + (30 if moment is None else moment)
  while process.poll() is None and time.monotonic() < limit:
    if moment is None and path.exists() and path.stat().st_size >= size:
      break
  process.kill()
  return process.wait()


def test_a_killed_writer_loses_nothing(folder):
  count, kills = 300, 0
  undisturbed = "".join(
    json.dumps(
      item(question, 1 + question * 7919 % 20_000).line, ensure_ascii=False
    )
    + "\n"
    for question in range(count)
  ).encode()
  path = folder / "items.jsonl"
  rng, data, torn = random.Random(0), b"", 0
  for number in range(30):
    moment = rng.uniform(0, 0.1) if number % 6 == 0 else None
    size = len(data) + rng.randint(1, len(undisturbed) // 40)
    speed = "slow" if number % 2 else "fast"
    with subprocess.Popen(program(WRITER, folder, count, speed)) as process:
      kills += kill(process, path, size, moment) == -signal.SIGKILL
    before, data = data, path.read_bytes() if path.exists() else b""
    torn += data[-1:] not in (b"", b"\n")
    assert undisturbed.startswith(data)
    assert len(data) >= before.rfind(b"\n") + 1
    if (folder / "config.json").exists():
      unit = store_lib.read(folder)
      assert len(unit.items) == data.count(b"\n")
      assert unit.done == (len(unit.items) == count)
  assert kills >= 20
  assert torn >= 1
  run(WRITER, folder, count, "fast")
  assert path.read_bytes() == undisturbed
  assert len(store_lib.read(folder).items) == count
  assert store_lib.read(folder).done


HALF = """
import signal
def dies(*_):
  os.kill(os.getpid(), signal.SIGKILL)
pathlib.Path.replace = dies
if sys.argv[2] == "COUNT":
  with enter(sys.argv[1]) as unit:
    unit.expect(3)
disk.write_atomic(os.path.join(sys.argv[1], sys.argv[2]), "half")
"""


def partials(folder):
  return sorted(path.name for path in folder.glob(".*"))


@pytest.mark.parametrize("name", ["COUNT", "table.md"])
def test_what_a_killed_process_began_is_removed(filled, name):
  with subprocess.Popen(program(HALF, filled, name)) as process:
    assert process.wait() == -signal.SIGKILL
  (left,) = partials(filled)
  assert left.startswith(f".{name}.")
  with enter(filled):
    pass
  assert not partials(filled)


def test_what_others_may_be_writing_is_left(filled):
  """A report may be made of a run that goes on; `own` files are the run's."""
  host = disk._host()
  alive = f".table.md.{host}.{os.getpid()}-0a.partial"
  away = ".table.md.another.1-0a.partial"
  own = ".COUNT.another.1-0a.partial", f".DONE.{host}.{os.getpid()}-0a.partial"
  foreign = ".notes.partial"
  for one in (alive, away, foreign, *own):
    (filled / one).write_bytes(b"")
  with enter(filled):
    assert partials(filled) == sorted([alive, away, foreign])
  disk.clear(filled)
  assert partials(filled) == sorted([away, foreign])


HOLDER = """
with enter(sys.argv[1]):
  print("on", flush=True)
  sys.stdin.read()
"""


def test_a_second_process_is_refused(filled):
  process = subprocess.Popen(
    program(HOLDER, filled), stdin=subprocess.PIPE, stdout=subprocess.PIPE
  )
  with process:
    process.stdout.readline()
    with pytest.raises(StoreError) as caught:
      enter(filled)
    message = one_line(caught)
    assert f"is being written by process {process.pid} on host " in message
    assert os.uname().nodename in message
    assert "wait for it, or give another --workdir" in message
    assert len(store_lib.read(filled).items) == 3
    process.kill()
  # The lock of a dead process is a file with its name, and no more.
  assert str(process.pid) in (filled / "lock").read_text()
  with enter(filled) as store:
    store.append(item(3))
    (filled / "lock").write_bytes(b"")
    with pytest.raises(StoreError, match="written by another process"):
      enter(filled)


FULL = """
folder, limit = sys.argv[1], int(sys.argv[2])
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
with enter(folder) as unit:
  resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
  try:
    for question in range(3, 100):
      unit.append(item(question))
  except store.StoreError as error:
    print(error)
  assert pathlib.Path(folder, "items.jsonl").stat().st_size <= limit
  assert store.read(folder).items == unit.items
  unit.save_timing({"methods": [], "environment": {}})
  try:
    unit.save_timing({"seconds": [1.5] * 10_000})
  except store.StoreError as error:
    print(error)
  assert store.read(folder).timing == {"methods": [], "environment": {}}
  assert not list(pathlib.Path(folder).glob(".*"))
  resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
  unit.append(item(question))
"""


@pytest.mark.parametrize("room", [0, 1, 100, 5000])
def test_a_file_that_may_not_grow(filled, room):
  limit = (filled / "items.jsonl").stat().st_size + room
  message, timing = run(FULL, filled, limit).splitlines()
  assert f"timing.json cannot be written: {os.strerror(errno.EFBIG)}" in timing
  ends, end = [], 0
  for question in range(100):
    end += len(json.dumps(item(question).line, ensure_ascii=False).encode()) + 1
    ends.append(end)
  count = sum(end <= limit for end in ends)
  assert f"the {count} items before it are safe" in message
  assert f"cannot write item task qa, question {count}" in message
  assert os.strerror(errno.EFBIG) in message
  assert "the same command continues" in message
  expected = tuple(map(item, range(count + 1)))
  assert store_lib.read(filled).items == expected


@pytest.mark.parametrize("name", ["write", "fsync"])
@pytest.mark.parametrize("number", [errno.EDQUOT, errno.EIO])
def test_errors_of_the_disk(filled, monkeypatch, name, number):
  def fail(*_):
    raise OSError(number, os.strerror(number))

  with enter(filled) as store:
    with monkeypatch.context() as patch:
      patch.setattr(os, name, fail)
      with pytest.raises(StoreError, match=os.strerror(number)) as caught:
        store.append(item(3))
    assert "the 3 items before it are safe" in one_line(caught)
    assert store_lib.read(filled).items == store.items
    assert len(store.items) == 3
    store.append(item(3))
  assert len(store_lib.read(filled).items) == 4


def test_a_tail_that_could_not_be_cut_is_never_appended_to(filled, monkeypatch):
  def tear(descriptor, data, real=os.write):
    if len(data) > 10:
      return real(descriptor, data[: len(data) - 10])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  def fail(*_):
    raise OSError(errno.EIO, "no")

  with enter(filled) as store:
    with monkeypatch.context() as patch:
      patch.setattr(os, "write", tear)
      patch.setattr(os, "ftruncate", fail)
      with pytest.raises(StoreError, match="No space left"):
        store.append(item(3))
    with pytest.raises(StoreError, match="not as this process left it"):
      store.append(item(4))
  assert len(store_lib.read(filled).items) == 3
  with enter(filled) as store:
    store.append(item(3))


READ_ONLY = """
os.chdir(sys.argv[1])
if os.geteuid() == 0:
  os.seteuid(65534)
for act in (
  lambda: enter("."),
  lambda: enter("new"),
  lambda: disk.write_atomic("report.md", "x"),
):
  try:
    act()
  except store.StoreError as error:
    print(error)
print(len(store.read(".").items))
"""


def test_a_folder_to_read_only(filled):
  filled.chmod(0o555)
  (filled / "lock").chmod(0o444)
  told = run(READ_ONLY, filled).splitlines()
  denied = os.strerror(errno.EACCES)
  assert told == [
    f". cannot be written in: {denied}",
    f"the folder new cannot be made: {denied}",
    f"report.md cannot be written: {denied}",
    "3",
  ]
