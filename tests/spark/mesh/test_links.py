"""Tasks that call each other over loopback: who gets in, what gets through, who is given up."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from caladan.engines.spark.mesh.encryption import Secure
from caladan.engines.spark.mesh.handshake import Door, Doorway, PeerLost
from caladan.engines.spark.mesh.links import Links

KEY = b"k" * 32


def mesh(
    tasks: int,
    work: Callable[[int, Links], Any],
    patience: float = 20.0,
    secure: Secure | None = None,
) -> list[Any]:
    """What the tasks return, or the exceptions they end with."""
    doorways = [Doorway("127.0.0.1", tasks) for _ in range(tasks)]
    doors = [each.door for each in doorways]
    results: list[Any] = [None] * tasks

    def run(me: int) -> None:
        links = None
        try:
            links = Links(doorways[me].meet(me, doors, KEY, 20, secure), patience)
            results[me] = work(me, links)
            links.farewell()
        except Exception as problem:
            results[me] = problem
        finally:
            doorways[me].close()
            if links is not None:
                links.close()

    threads = [threading.Thread(target=run, args=(me,)) for me in range(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("tasks", [1, 2, 4])
def test_everybody_gets_everything(tasks: int) -> None:
    def work(me: int, links: Links) -> list[list[bytes | None]]:
        found: list[list[bytes | None]] = []
        for number in range(50):
            sent = [
                [f"{me} to {task}".encode(), b" in ", str(number).encode()] for task in range(tasks)
            ]
            came = links.exchange(sent)
            found.append([None if each is None else bytes(each) for each in came])
        return found

    for me, rounds in enumerate(mesh(tasks, work)):
        for number, came in enumerate(rounds):
            wanted = [f"{task} to {me} in {number}".encode() for task in range(tasks)]
            assert came == [None if task == me else wanted[task] for task in range(tasks)]


def test_messages_larger_than_any_buffer() -> None:
    """Both sides send much at once: nobody may wait for the other to read first."""

    def work(me: int, links: Links) -> int:
        data = np.full(1 << 22, me, np.uint64)
        sent = memoryview(data.tobytes())
        (came,) = [each for each in links.exchange([[sent]] * 2) if each]
        return int(np.frombuffer(came, np.uint64).sum())

    assert mesh(2, work) == [1 << 22, 0]


def test_a_quick_task_does_not_overtake() -> None:
    """A task may be a whole round ahead of a slow one; its messages wait their turn."""

    def work(me: int, links: Links) -> list[int]:
        found: list[int] = []
        for number in range(20):
            if me == 2:
                time.sleep(0.005)
            came = links.exchange([[bytes([number])]] * 3)
            found += [each[0] for each in came if each is not None]
        return found

    assert mesh(3, work) == [[n for n in range(20) for _ in range(2)]] * 3


def test_a_task_that_dies_is_noticed_at_once() -> None:
    def work(me: int, links: Links) -> None:
        if me == 1:
            links.close()
            raise RuntimeError("killed")
        links.exchange([[b"x"]] * 2)
        links.exchange([[b"x"]] * 2)

    started = time.perf_counter()
    survivor, _ = mesh(2, work)
    assert isinstance(survivor, PeerLost)
    assert time.perf_counter() - started < 5


def test_a_task_that_hangs_is_given_up() -> None:
    woken = threading.Event()

    def work(me: int, links: Links) -> None:
        if me == 1:
            woken.wait(20)
            raise RuntimeError("too late")
        try:
            links.exchange([[b"x"]] * 3)
        finally:
            woken.set()

    found = mesh(3, work, patience=0.5)
    assert any("task 1 has said nothing for 0.5 seconds" in str(each) for each in found)


def test_a_task_that_is_busy_is_waited_for() -> None:
    def work(me: int, links: Links) -> int:
        if me == 1:
            for _ in range(150):
                time.sleep(0.01)
                links.beat()
        return sum(len(each) for each in links.exchange([[b"abc"]] * 2) if each is not None)

    assert mesh(2, work, patience=0.5) == [3, 3]


def test_strangers_and_tasks_of_other_attempts_stay_outside() -> None:
    doorways = [Doorway("127.0.0.1", 2) for _ in range(2)]
    doors = [each.door for each in doorways]
    stale = [Door(d.host, d.port, "0" * 32) for d in doors]
    intruder = Doorway("127.0.0.1", 2)

    def intrude() -> None:
        with socket.create_connection((doors[0].host, doors[0].port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.0\r\n\r\n" + bytes(64))
            with suppress(ConnectionError):  # what being hung up on may look like
                assert stranger.recv(64) == b""
        with pytest.raises(PeerLost):
            intruder.meet(1, stale, KEY, 5)
        with pytest.raises(PeerLost):
            intruder.meet(1, doors, b"another" * 4, 5)

    found: list[Any] = []
    first = threading.Thread(target=lambda: found.append(doorways[0].meet(0, doors, KEY, 20)))
    first.start()
    intrude()
    found.append(doorways[1].meet(1, doors, KEY, 20))
    first.join()
    ends = [end for links in found for end in links if end is not None]
    assert len(ends) == 2
    for each in (*ends, *doorways, intruder):
        each.close()


def test_nobody_comes() -> None:
    doorway = Doorway("127.0.0.1", 2)
    with pytest.raises(PeerLost, match="could not meet"):
        doorway.meet(0, [doorway.door, doorway.door], KEY, 0.2)
    doorway.close()
