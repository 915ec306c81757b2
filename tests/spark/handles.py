"""A process without file handles: for tests that run in one of their own, and may spoil it.

python -m tests.spark.handles control      the driver's end of the line
python -m tests.spark.handles doorway      the door of a task
"""

import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from caladan.engines.spark.mesh.handshake import Doorway
from caladan.engines.spark.tasks.control import Control, Line

HERE = "127.0.0.1"
KEY = b"k" * 32


def spent_without(port: int) -> float:
    """Seconds of this process's time in one in which somebody calls and no handle is left."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    caller = socket.socket()
    held: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    with suppress(OSError):
        while True:
            held.append(os.dup(0))
    caller.connect((HERE, port))  # nobody can accept this
    before = time.process_time()
    time.sleep(1.0)
    spent = time.process_time() - before
    for handle in held:
        os.close(handle)
    caller.close()
    return spent


def control() -> None:
    """Once there are handles again, everybody is heard."""
    with Control(HERE, lambda peer, message: peer.send({"heard": message})) as driver:
        assert spent_without(driver.address.port) < 0.5
        line = Line.connect(driver.address, {"part": 0})
        assert line.receive(5) == {"heard": {"part": 0}}
        line.close()


def doorway() -> None:
    """Once there are handles again, tasks meet."""
    two = [Doorway(HERE, 2) for _ in range(2)]
    doors = [each.door for each in two]
    found: list[list[socket.socket | None]] = []
    first = threading.Thread(target=lambda: found.append(two[0].meet(0, doors, KEY, 20)))
    first.start()
    time.sleep(0.1)
    assert spent_without(doors[0].port) < 0.5
    found.append(two[1].meet(1, doors, KEY, 20))
    first.join()
    assert sum(end is not None for links in found for end in links) == 2


PARTS: dict[str, Callable[[], None]] = {"control": control, "doorway": doorway}

if __name__ == "__main__":
    PARTS[sys.argv[1]]()
