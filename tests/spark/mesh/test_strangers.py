"""Strangers at the door of a task: slow ones, many, noisy ones, and those who say nothing."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from random import Random
from typing import Any

import pytest
from tests.spark.mesh.test_links import KEY

from caladan.engines.spark.mesh.encryption import Secure
from caladan.engines.spark.mesh.handshake import Doorway, PeerLost
from caladan.engines.spark.tasks import strangers

PATIENCE = 10.0


def opened(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 5)


def silent(connection: socket.socket, done: threading.Event) -> None:
    """Says nothing."""
    while not done.is_set():
        with suppress(TimeoutError):
            if not connection.recv(1 << 12):
                return


def slow(connection: socket.socket, done: threading.Event) -> None:
    """Says a byte now and then, and so would be in time for ever, were time counted by reads."""
    while not done.wait(0.02):
        connection.sendall(b"\x01")


def noisy(connection: socket.socket, done: threading.Event) -> None:
    """Says what nobody understands."""
    while not done.is_set():
        connection.sendall(Random(1).randbytes(1 << 12))


def half_open(connection: socket.socket, done: threading.Event) -> None:
    """Has nothing more to say, but listens on."""
    connection.shutdown(socket.SHUT_WR)
    silent(connection, done)


def almost_right(connection: socket.socket, done: threading.Event) -> None:
    """Gives the number of a task, and then no proof."""
    connection.sendall(struct.pack("<q32s", 2, bytes(32)))
    silent(connection, done)


def reset(connection: socket.socket, done: threading.Event) -> None:
    """Is gone as soon as it has come."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    done.wait(0.01)


Kind = Callable[[socket.socket, threading.Event], None]
KINDS: list[Kind] = [silent, slow, noisy, half_open, almost_right, reset]


@contextmanager
def besieged(ports: list[int], kind: Kind, count: int) -> Generator[None]:
    """Strangers at every port, who come again when they are hung up on."""
    done = threading.Event()

    def come(port: int) -> None:
        while not done.is_set():
            with suppress(OSError), opened(port) as connection:
                connection.settimeout(0.1)
                kind(connection, done)

    comers = [threading.Thread(target=come, args=(port,)) for port in ports for _ in range(count)]
    for each in comers:
        each.start()
    time.sleep(0.1)
    try:
        yield
    finally:
        done.set()
        for each in comers:
            each.join()


def met(doorways: list[Doorway], secure: Secure | None = None) -> list[Any]:
    """What all tasks find, or the exceptions they end with."""
    doors = [each.door for each in doorways]
    found: list[Any] = [None] * len(doors)

    def run(me: int) -> None:
        try:
            found[me] = doorways[me].meet(me, doors, KEY, PATIENCE, secure)
        except Exception as problem:
            found[me] = problem

    threads = [threading.Thread(target=run, args=(me,)) for me in range(len(doors))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return found


def assert_connected(found: list[Any]) -> None:
    """Every two tasks hold the two ends of one connection."""
    for me, links in enumerate(found):
        assert isinstance(links, list), links
        for task, link in enumerate(links):
            if task > me:
                link.setblocking(True)
                link.settimeout(5)
                link.sendall(bytes([me, task]))
                other = found[task][me]
                other.settimeout(5)
                assert other.recv(2) == bytes([me, task])
    for link in (each for links in found for each in links if each is not None):
        link.close()


@pytest.fixture
def doorways() -> Iterator[list[Doorway]]:
    found = [Doorway("127.0.0.1", 3) for _ in range(3)]
    yield found
    for each in found:
        each.close()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_tasks_meet_among_strangers(doorways: list[Doorway], kind: Kind) -> None:
    with besieged([each.door.port for each in doorways], kind, 8):
        started = time.monotonic()
        found = met(doorways)
        assert time.monotonic() - started < PATIENCE / 2
    assert_connected(found)


def test_tasks_meet_among_many(doorways: list[Doorway], monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than may be inside at a time: the oldest go, and tasks come through."""
    monkeypatch.setattr(strangers, "MOST", 4)
    with besieged([each.door.port for each in doorways], almost_right, 12):
        assert_connected(met(doorways))


def test_the_queue_was_full_before_anybody_looked(doorways: list[Doorway]) -> None:
    with ExitStack() as stack:
        for doorway in doorways:
            for _ in range(120):
                stack.enter_context(opened(doorway.door.port))
        assert_connected(met(doorways))


def test_strangers_do_not_stretch_the_deadline(
    doorways: list[Doorway], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else comes: strangers are no reason to wait longer."""
    monkeypatch.setattr(strangers, "PATIENCE", 60.0)
    doorway = doorways[0]
    with besieged([doorway.door.port], slow, 4):
        started = time.monotonic()
        with pytest.raises(PeerLost, match="no time left, and no word of task 1, 2"):
            doorway.meet(0, [each.door for each in doorways], KEY, 1.0)
        assert time.monotonic() - started < 3


def test_a_stranger_has_one_span_of_time(
    doorways: list[Doorway], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strangers, "PATIENCE", 0.3)
    doorway = doorways[0]

    def lone() -> None:
        with suppress(PeerLost):
            doorway.meet(0, [each.door for each in doorways], KEY, 2.0)

    thread = threading.Thread(target=lone)
    thread.start()
    with opened(doorway.door.port) as stranger:
        started = time.monotonic()
        with suppress(OSError):
            while time.monotonic() - started < 1.5:
                stranger.sendall(b"\x01")
                stranger.settimeout(0.02)
                try:
                    if not stranger.recv(1):
                        break
                except TimeoutError:
                    continue
        assert 0.2 < time.monotonic() - started < 1.2
    thread.join()
