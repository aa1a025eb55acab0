"""A SLURM cluster on this machine: munge, a controller, and four nodes, until standard input ends.

It runs in namespaces of its own (`slurm.py`): no daemon outlives it, and only it sees the names of
the nodes in /etc/hosts. `python -m tests.clusters.slurm_daemons FOLDER`
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tests.clusters.environment import FOLDER

ROOT = FOLDER / "slurm"
NODES = ("n1", "n2", "n3", "n4")
CPUS = 8
LONGEST_START_S = 60.0
POLL_S = 0.1
RESTARTED_AFTER_S = 100.0
"""How long after its end the daemon of a node is started again: the controller has noticed it."""

CONFIG = """\
ClusterName=kiln
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=8
CredType=cred/munge
PluginDir={plugins}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
KillWait=5
RequeueExit=75
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_min_interval=0
{nodes}
PartitionName=all Nodes=n[1-4] Default=YES State=UP MaxTime=INFINITE
"""
"""Nodes have more processors than this machine; a job whose exit code is 75 is queued again.

A job that is queued again starts after its credentials have expired, by default in two minutes.
"""


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _configured(folder: Path) -> Path:
    """Write the configuration, the key and the names of the nodes."""
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(1024))
    hosts = folder / "hosts"
    named = f"127.0.0.1 {' '.join(NODES)}\n"
    hosts.write_text(Path("/etc/hosts").read_text(encoding="utf-8") + named, encoding="utf-8")
    subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True)
    ports = _free_ports(1 + len(NODES))
    (plugins,) = (ROOT / "usr" / "lib").glob("*/slurm-wlm")
    nodes = "\n".join(
        f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs={CPUS}"
        for name, port in zip(NODES, ports[1:], strict=True)
    )
    config = folder / "slurm.conf"
    text = CONFIG.format(ports=ports, folder=folder, plugins=plugins, nodes=nodes)
    config.write_text(text, encoding="utf-8")
    return config


def main(argv: Sequence[str]) -> None:
    folder = Path(argv[0])
    config, programs = _configured(folder), ROOT / "usr" / "sbin"
    munge = [
        f"--{name}={folder}/munge.{end}"
        for name, end in (
            ("key-file", "key"),
            ("socket", "socket"),
            ("pid-file", "pid"),
            ("log-file", "log"),
            ("seed-file", "seed"),
        )
    ]
    commands = [
        [programs / "munged", "--force", "--foreground", *munge],
        [programs / "slurmctld-wlm", "-D", "-f", config],
    ]
    for name in NODES:
        stepd = ["-d", programs / "slurmstepd-wlm"]
        commands.append([programs / "slurmd-wlm", "-D", "-N", name, "-f", config, *stepd])
    running: dict[int, int] = {}
    end = time.monotonic() + LONGEST_START_S
    for number, command in enumerate(commands):
        running[_started(command, folder, number)] = number
        while not number and not (folder / "munge.socket").exists():
            assert time.monotonic() < end
            time.sleep(0.05)
    (folder / "pids").write_text(" ".join(map(str, running)), encoding="utf-8")
    environment = {**os.environ, "SLURM_CONF": str(config)}
    ask = [str(ROOT / "usr/bin/sinfo"), "--noheader", "--states=idle", "--format=%D"]
    while True:
        found = subprocess.run(ask, env=environment, capture_output=True, text=True, check=False)
        if found.stdout.strip() == str(len(NODES)):
            break
        assert time.monotonic() < end, found
        time.sleep(0.2)
    print("ready", flush=True)
    _reap_until_input_ends(folder, commands, running)


def _started(command: Sequence[str | Path], folder: Path, number: int) -> int:
    """Start a daemon, and return the number of its process."""
    with (folder / f"daemon{number}.out").open("ab") as out:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out).pid


def _reap_until_input_ends(
    folder: Path, commands: Sequence[Sequence[str | Path]], running: dict[int, int]
) -> None:
    """Wait for orphans, as the first process of a namespace must: SLURM waits for their end.

    A daemon that has ended is started again.
    """
    over = threading.Event()

    def read() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=read, daemon=True).start()
    ended: dict[int, float] = {}
    while not over.wait(POLL_S):
        with contextlib.suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                if pid in running:
                    ended[running.pop(pid)] = time.monotonic()
        for number, moment in list(ended.items()):
            if time.monotonic() > moment + RESTARTED_AFTER_S:
                del ended[number]
                running[_started(commands[number], folder, number)] = number


if __name__ == "__main__":
    main(sys.argv[1:])
