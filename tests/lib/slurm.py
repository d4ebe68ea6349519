"""A real SLURM on this machine, for tests: its daemons are children.

The only node is this machine. /dev/tty0 and /dev/tty1 stand for two GPUs. It
needs Debian's slurm-wlm and munge.
"""

import contextlib
import os
import pathlib
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile

import pytest

from tests.lib.commands import until

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scontrol")
SBIN = "/usr/sbin"

CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={munge}/socket
CredType=cred/munge
SlurmctldPort={port}
SlurmdPort={next_port}
StateSaveLocation={place}/ctld
SlurmdSpoolDir={place}/slurmd
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
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
  munge = place / "munge"
  munge.chmod(0o755)
  host, port = socket.gethostname().partition(".")[0], _free_port()
  conf = place / "slurm.conf"
  conf.write_text(
    CONF.format(
      host=host,
      user=pwd.getpwuid(os.getuid()).pw_name,
      place=place,
      munge=munge,
      port=port,
      next_port=_free_port(),
      cpus=os.cpu_count(),
    )
  )
  gres = f"NodeName={host} Name=gpu File=/dev/tty[0-1]\n"
  (place / "gres.conf").write_text(gres)
  (munge / "key").write_bytes(secrets.token_bytes(1024))
  (munge / "key").chmod(0o600)
  files = {"key-file": "key", "seed-file": "seed", "pid-file": "pid"}
  files["socket"] = "socket"  # a socket path has at most 107 letters
  flags = [f"--{flag}={munge}/{name}" for flag, name in files.items()]
  with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as daemons:
    patch.setenv("SLURM_CONF", str(conf))

    def start(name, *arguments):
      log = place / "log" / name
      daemons.enter_context(_daemon(log, name, *arguments))

    start("munged", "--foreground", "--force", *flags)
    until((munge / "socket").exists, 60)
    start("slurmctld", "-D", "-f", conf, "-c")
    start("slurmd", "-D", "-f", conf, "-N", host)
    until(lambda: asked("sinfo", "-o", "%T").strip() == "idle", 60)
    try:
      yield conf
    finally:
      subprocess.run(["scancel", "--me"], timeout=30, capture_output=True)


def asked(command, *options):
  """What one of SLURM's commands prints, or its error."""
  header = ["--noheader"] if command in ("squeue", "sinfo") else []
  done = subprocess.run(
    [command, *header, *options], capture_output=True, text=True
  )
  return done.stdout or done.stderr


@contextlib.contextmanager
def _daemon(log, name, *arguments):
  """A process in the foreground, ended in the end."""
  command = [_which(name), *map(str, arguments)]
  with (
    log.open("wb") as file,
    subprocess.Popen(command, stdout=file, stderr=file) as process,
  ):
    try:
      yield
    finally:
      process.terminate()
      with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(30)
      process.kill()


def _which(name):
  return shutil.which(name) or shutil.which(name, path=SBIN)


def _free_port():
  with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    return free.getsockname()[1]


if __name__ == "__main__":  # whether it starts on this machine
  with tempfile.TemporaryDirectory() as folder, running(pathlib.Path(folder)):
    print("SLURM starts, and ends")
