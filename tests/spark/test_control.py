"""The line between driver and tasks: who may call, what is heard, how a job is stopped."""

import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from caladan.engines.spark.tasks import strangers
from caladan.engines.spark.tasks.control import Address, Control, Line, Message, Peer
from caladan.engines.spark.tasks.relay import Relay, heard as events_of
from caladan.program.events import CliqueDone, RoundDone, ValuesSplit

HERE = "127.0.0.1"


class Heard:
    """What the driver heard, by the part that said it."""

    def __init__(self) -> None:
        self.messages: list[tuple[Any, Message]] = []

    def __call__(self, peer: Peer, message: Message) -> None:
        self.messages.append((peer.hello["part"], message))
        if "ask" in message:
            peer.send({"answer": message["ask"] + 1})


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)


def test_messages_arrive_in_order_and_are_answered() -> None:
    heard = Heard()
    with Control(HERE, heard) as control:
        lines = [Line.connect(control.address, {"part": i}) for i in range(3)]
        for number in range(100):
            for line in lines:
                line.send({"round": number})
        lines[1].send({"ask": 6})
        assert lines[1].receive(5) == {"answer": 7}
        for line in lines:
            line.close()
        control.drain()
    for part in range(3):
        rounds = [m["round"] for p, m in heard.messages if p == part and "round" in m]
        assert rounds == list(range(100))


OTHERS = [
    ValuesSplit(cast("Any", (5, 6)), cast("Any", (True, "2020-01-01", "b"))),
    CliqueDone(("tc",), 1, 2, 0.5),
]


def test_events_arrive_whatever_numbers_they_have() -> None:
    heard = Heard()
    with Control(HERE, heard) as control:
        line = Line.connect(control.address, {"part": 0})
        relay = Relay(line)
        odd: Any = [np.bool_(True), np.datetime64("2020-01-01"), Path("b")]
        for event in (
            RoundDone(cast("int", np.int64(1)), cast("int", np.uint32(2)), 3, 0.5),
            ValuesSplit(cast("int", np.int64(4)), ["a"]),
            ValuesSplit(cast("Any", np.array([5, 6])), odd),
            CliqueDone(["tc"], 1, cast("int", np.uint64(2)), cast("float", np.float32(0.5))),
        ):
            relay.tell(event)
        relay.close()
        line.close()
        control.drain()
    told = [event for _, message in heard.messages for event in events_of(message)]
    assert told == [RoundDone(1, 2, 3, 0.5), ValuesSplit(4, ("a",)), *OTHERS]


def test_a_long_message() -> None:
    heard = Heard()
    with Control(HERE, heard) as control:
        line = Line.connect(control.address, {"part": 0})
        line.send({"text": "x" * 3_000_000})
        line.close()
        control.drain()
    assert len(heard.messages[1][1]["text"]) == 3_000_000


def test_who_does_not_know_the_key_is_not_heard() -> None:
    heard = Heard()
    with Control(HERE, heard) as control:
        wrong = Address(HERE, control.address.port, bytes(32))
        with pytest.raises(OSError):
            Line.connect(wrong, {"part": 0})
        with socket.create_connection((HERE, control.address.port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\nHost: somebody\r\n\r\n" * 9)
            stranger.settimeout(5)
            assert len(stranger.recv(1 << 16)) == 32  # the challenge
            with suppress(ConnectionError):  # what being hung up on may look like
                assert stranger.recv(1 << 16) == b""
    assert heard.messages == []


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "PATIENCE", 0.3)


def test_strangers_have_one_span_of_time(short_patience: None) -> None:
    with (
        Control(HERE, Heard()) as control,
        socket.create_connection((HERE, control.address.port)) as stranger,
    ):
        started = time.monotonic()
        stranger.settimeout(5)
        assert len(stranger.recv(32)) == 32
        with suppress(ConnectionError):
            while time.monotonic() - started < 3 and not received(stranger):
                stranger.send(b"x")
        assert 0.2 < time.monotonic() - started < 1.5


def received(connection: socket.socket) -> bool:
    """Whether the other end has hung up."""
    connection.settimeout(0.02)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False


def test_tasks_get_through_among_many_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "MOST", 4)
    heard = Heard()
    with Control(HERE, heard) as control, ExitStack() as stack:
        for i in range(100):
            stack.enter_context(socket.create_connection((HERE, control.address.port), 5))
            if i % 25 == 0:
                line = Line.connect(control.address, {"part": i})
                line.send({"round": i})
                line.close()
        started = time.monotonic()
        control.drain(5)
        assert time.monotonic() - started < 2  # strangers are not waited for
    assert [m["round"] for _, m in heard.messages if "round" in m] == [0, 25, 50, 75]


def test_a_task_that_was_hung_up_on_calls_again() -> None:
    with Control(HERE, Heard()) as control, socket.create_server((HERE, 0)) as door:

        def crowded() -> None:
            for _ in range(3):
                door.accept()[0].close()
            caller, _ = door.accept()
            driver = socket.create_connection((HERE, control.address.port))
            with caller, driver:
                caller.sendall(driver.recv(32))
                driver.sendall(caller.recv(64))
                caller.sendall(driver.recv(32))
                caller.recv(1 << 10)

        thread = threading.Thread(target=crowded)
        thread.start()
        address = Address(HERE, door.getsockname()[1], control.address.key)
        Line.connect(address, {"part": 0}).close()
        thread.join()


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"n": ' + b"9" * 10_000 + b"}",
        b"[1]",
        b"\xff",
        b"",
        b"null",
    ],
    ids=["lists", "objects", "digits", "list", "bytes", "empty", "null"],
)
def test_what_is_no_message_ends_the_call_only(body: bytes) -> None:
    heard = Heard()
    with Control(HERE, heard) as control:
        bad = Line.connect(control.address, {"part": 0})
        cast("Any", bad)._socket.sendall(struct.pack(">I", len(body)) + body)
        with pytest.raises(ConnectionError, match="gone"):
            bad.receive(5)
        bad.close()
        good = Line.connect(control.address, {"part": 1})
        good.send({"ask": 1})
        assert good.receive(5) == {"answer": 2}
        good.close()
        control.drain()
    assert control.failure is None


def test_a_message_that_is_too_long_is_refused_before_it_has_come() -> None:
    with Control(HERE, Heard()) as control:
        line = Line.connect(control.address, {"part": 0})
        cast("Any", line)._socket.sendall(struct.pack(">I", 0xFFFFFFFF))
        with pytest.raises(ConnectionError, match="gone"):
            line.receive(5)
        line.close()


def test_a_driver_that_sends_too_much_is_not_listened_to() -> None:
    ours, theirs = socket.socketpair()
    line = Line(ours)
    with theirs:
        theirs.sendall(struct.pack(">I", 0xFFFFFFFF))
        with pytest.raises(ConnectionError, match="gone"):
            line.receive(5)
    line.close()


@pytest.mark.parametrize("part", ["control", "doorway"])
def test_handles_run_out(part: str) -> None:
    """Who listens does not ask again and again, and goes on when there are handles again."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.handles", part],
        cwd=root, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_driver_that_does_not_know_the_key_is_not_believed() -> None:
    with socket.create_server((HERE, 0)) as server:

        def impostor() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(bytes(32))
                connection.recv(64)
                connection.sendall(bytes(32))

        thread = threading.Thread(target=impostor)
        thread.start()
        with pytest.raises(ConnectionError, match="does not know the key"):
            Line.connect(Address(HERE, server.getsockname()[1], b"k" * 32), {})
        thread.join()


def test_the_key_is_not_shown() -> None:
    assert "secret" not in repr(Address(HERE, 1, b"secret"))


def test_stop_reaches_those_who_called_and_those_who_will() -> None:
    with Control(HERE, Heard()) as control:
        early = Line.connect(control.address, {"part": 0})
        eventually(lambda: early.is_stopped or not control.stop())
        late = Line.connect(control.address, {"part": 1})
        told = threading.Event()
        late.on_stop(told.set)
        assert told.wait(5)
        early.close()
        late.close()


def test_a_listener_that_raises_ends_the_job() -> None:
    def heard(peer: Peer, message: Message) -> None:
        raise RuntimeError("enough")

    with Control(HERE, heard) as control:
        line = Line.connect(control.address, {"part": 0})
        eventually(lambda: line.is_stopped)
        line.close()
        control.drain()
    assert str(control.failure) == "enough"


def test_a_task_notices_that_the_driver_is_gone() -> None:
    with Control(HERE, Heard()) as control:
        line = Line.connect(control.address, {"part": 0})
    with pytest.raises(OSError, match="gone"):
        line.receive(5)
    line.send({"round": 1})
    line.close()
