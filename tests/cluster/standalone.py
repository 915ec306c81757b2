"""A Spark cluster on this machine: a master and some workers, each a process of its own.

Everything listens on the loopback address only. Workers have one core, so that every executor runs
one task, and a job with several tasks has to talk across processes. Also the way to try a cluster
at home: `python -m tests.cluster.standalone` starts one and prints its address.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyspark

from caladan.engines.spark.session.java import java_home

HOST = "127.0.0.1"
WORKERS = 2
PATIENCE = 90.0  # seconds for a process to come up on a busy machine

SETTINGS = {
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.executor.cores": "1",
    "spark.python.daemon.module": "caladan.engines.spark.session.daemon",
}


@dataclass(frozen=True)
class Cluster:
    """A running cluster: its address, and the processes of its workers."""

    master: str
    workers: tuple[int, ...]

    def executors(self) -> list[int]:
        """The JVMs in which tasks run."""
        return [pid for worker in self.workers for pid in children(worker)]

    def python_workers(self) -> list[int]:
        """The Python processes in which tasks run: forked by a daemon that an executor started."""
        daemons = [pid for executor in self.executors() for pid in children(executor)]
        return [pid for daemon in daemons for pid in children(daemon)]


def children(parent: int) -> list[int]:
    """The processes that a process has started and that are still there."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # gone meanwhile
                continue
            if int(fields[1]) == parent and fields[0] != "Z":
                found.append(int(entry.name))
    return sorted(found)


@contextmanager
def cluster(workers: int) -> Generator[Cluster]:
    """A cluster that is there meanwhile."""
    with tempfile.TemporaryDirectory(prefix="caladan-cluster-") as folder:
        started: list[subprocess.Popen[bytes]] = []
        try:
            log = Path(folder) / "master.log"
            started.append(_spark("master.Master", log, "--host", HOST, "--port", "0"))
            master = _said(log, r"Starting Spark master at (spark://\S+)")
            for number in range(workers):
                log = Path(folder) / f"worker-{number}.log"
                arguments = [master, "--host", HOST, "--cores", "1", "--memory", "2g"]
                work = ["--work-dir", f"{folder}/work-{number}"]
                started.append(_spark("worker.Worker", log, *arguments, *work))
            for number in range(workers):
                _said(Path(folder) / f"worker-{number}.log", r"Successfully registered with")
            yield Cluster(master, tuple(process.pid for process in started[1:]))
        finally:
            for process in reversed(started):
                _end(process)


def _spark(name: str, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a daemon of Spark's; each is the leader of a group, to be ended with all it started."""
    home = Path(pyspark.__path__[0])
    environment = {**os.environ, "SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m"}
    environment["PYSPARK_PYTHON"] = sys.executable
    # An application keeps its executors, however many of them we kill.
    environment["SPARK_MASTER_OPTS"] = "-Dspark.deploy.maxExecutorRetries=-1"
    if (java := java_home()) is not None:
        environment["JAVA_HOME"] = java
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("wb") as out:
        return subprocess.Popen(
            [*command, "--webui-port", "0"],
            stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True,
        )  # fmt: skip


def _said(log: Path, pattern: str) -> str:
    """What a process has written, once it has; the group of the pattern, if it has one."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if log.exists() and (found := re.search(pattern, log.read_text(errors="replace"))):
            return found.group(found.lastindex or 0)
        time.sleep(0.1)
    raise TimeoutError(f"{log.name} does not say {pattern!r}:\n{log.read_text(errors='replace')}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a daemon and what it started: executors are children, Python workers theirs."""
    family = [process.pid]
    for pid in family:
        family += children(pid)
    for pid in family:
        kill(pid, signal.SIGKILL)
    process.wait()


def kill(pid: int, number: signal.Signals) -> bool:
    """Send a process a signal, unless it is gone; whether it was there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def main(out: IO[str] = sys.stdout) -> None:
    """Start a cluster of two workers and keep it until interrupted."""
    with cluster(WORKERS) as running:
        print(running.master, file=out, flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("ending", file=out)


if __name__ == "__main__":
    main()
