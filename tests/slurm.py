"""A real SLURM on this machine, for tests: started and ended by its pids.

One node that is here, with two GPUs that are none: /dev/tty0 and /dev/tty1.
Debian's slurm-wlm and munge are all that it takes.
"""

import contextlib
import os
import pathlib
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scontrol")
SBIN = "/usr/sbin"

CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={munge}/munge.socket.2
CredType=cred/munge
SlurmctldPort={port}
SlurmdPort={next_port}
StateSaveLocation={place}/ctld
SlurmdSpoolDir={place}/slurmd
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/log/slurmctld
SlurmdLogFile={place}/log/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0
ReturnToService=2
KillWait=5
MinJobAge=300
MaxArraySize=1001
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} Gres=gpu:2 State=UNKNOWN
PartitionName=debug Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def installed() -> bool:
  """Whether it is installed."""
  return all(map(_which, PROGRAMS))


@contextlib.contextmanager
def running(place: pathlib.Path):
  """A cluster; SLURM_CONF is set for whoever asks it."""
  place = place.resolve()
  for name in ("munge", "ctld", "slurmd", "log"):
    (place / name).mkdir(parents=True)
  os.chmod(place / "munge", 0o755)
  host, port = socket.gethostname().partition(".")[0], _free_port()
  conf = place / "slurm.conf"
  conf.write_text(
    CONF.format(
      host=host,
      user=pwd.getpwuid(os.getuid()).pw_name,
      place=place,
      munge=place / "munge",
      port=port,
      next_port=_free_port(),
      cpus=os.cpu_count(),
    )
  )
  gres = f"NodeName={host} Name=gpu File=/dev/tty[0-1]\n"
  (place / "gres.conf").write_text(gres)
  key = place / "munge" / "key"
  key.write_bytes(secrets.token_bytes(1024))
  key.chmod(0o600)
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv("SLURM_CONF", str(conf))
    try:
      _munged(place / "munge")
      _start("slurmctld", "-f", conf, "-c")
      _start("slurmd", "-f", conf, "-N", host)
      _until_idle(place)
      yield conf
    finally:
      with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(["scancel", "--me"], timeout=30, capture_output=True)
      for name in ("slurmd", "slurmctld", "munge/munged"):
        _end(place / f"{name}.pid")


def asked(command, *options):
  """What one of SLURM's commands prints, or its error."""
  header = ["--noheader"] if command in ("squeue", "sinfo") else []
  done = subprocess.run(
    [command, *header, *options], capture_output=True, text=True
  )
  return done.stdout or done.stderr


def _munged(folder):
  # A socket's path may have 107 letters.
  _start(
    "munged",
    "--force",
    f"--key-file={folder}/key",
    f"--socket={folder}/munge.socket.2",
    f"--pid-file={folder}/munged.pid",
    f"--log-file={folder}/munged.log",
    f"--seed-file={folder}/munged.seed",
  )


def _start(name, *arguments):
  command = [_which(name), *map(str, arguments)]
  done = subprocess.run(command, capture_output=True, text=True, timeout=60)
  assert done.returncode == 0, (name, done.stdout, done.stderr)


def _until_idle(place):
  limit = time.monotonic() + 60
  while time.monotonic() < limit:
    if asked("sinfo", "-o", "%T").strip() == "idle":
      return
    time.sleep(0.2)
  logs = [path.read_text()[-2000:] for path in (place / "log").iterdir()]
  raise AssertionError(f"SLURM does not start: {logs}")


def _end(path):
  """By its pid, and waits until it is gone."""
  try:
    pid = int(path.read_text())
  except (OSError, ValueError):
    return
  with contextlib.suppress(ProcessLookupError):
    os.kill(pid, signal.SIGTERM)
    limit = time.monotonic() + 30
    while time.monotonic() < limit:
      os.kill(pid, 0)
      time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)


def _which(name):
  return shutil.which(name) or shutil.which(name, path=SBIN)


def _free_port():
  with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    return free.getsockname()[1]


if __name__ == "__main__":  # whether it starts on this machine
  with tempfile.TemporaryDirectory() as folder, running(pathlib.Path(folder)):
    print("SLURM starts, and ends")
