"""Who may connect: tasks of the same attempt of the same job, and nobody else.

A task listens where Spark says it is, on any free port, and is told by the driver where the others
listen. It calls those before it and is called by those after it. Both ends prove that they know the
key of the job and the nonces of this attempt, each by an HMAC of the other's random challenge; a
task of an earlier attempt that is still around does not know the nonces.

    caller ── who it is, its challenge ──►
           ◄── proof, challenge ──
           ── proof ──►
           ◄── welcome ──

Where what is sent is to be encrypted, all of this happens inside TLS (encryption.py).

All of it goes on side by side, until one deadline, and without threads: a handshake is a generator
that says what it waits for. Strangers get little time and are never many (tasks/strangers.py); a
task that was taken for one of too many calls again.
"""

from __future__ import annotations

import errno
import hmac
import os
import secrets
import selectors
import socket
import ssl
import struct
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, cast

from caladan.engines.spark.tasks.strangers import Strangers

if TYPE_CHECKING:
    from caladan.engines.spark.mesh.encryption import Secure

T = TypeVar("T")
Steps: TypeAlias = Generator[tuple[socket.socket, int], None, T]
"""Steps on a connection: each names what it waits for."""

_HELLO: Final = struct.Struct("<q32s")
_SIZE: Final = 32  # bytes of a challenge, and of a proof
_WELCOME: Final = b"w"
_AGAIN: Final = 0.05  # seconds until a task that was hung up on calls again


@dataclass(frozen=True, slots=True)
class Door:
    """Where a task listens, and its nonce for this attempt."""

    host: str
    port: int
    nonce: str


class PeerLost(ConnectionError):
    """A peer is gone, hangs, or was never there."""


class _HungUp(ConnectionError):
    """The other end hung up in the middle of a handshake."""


_CALL_AGAIN: Final = (
    _HungUp, ConnectionResetError, BrokenPipeError, ssl.SSLEOFError, ssl.SSLZeroReturnError
)  # fmt: skip


class Doorway:
    """A task that listens; `door` is what the others need to know."""

    def __init__(self, host: str, tasks: int) -> None:
        self._listener = socket.create_server((host, 0), backlog=tasks + 128)
        port = self._listener.getsockname()[1]
        self.door = Door(host, port, secrets.token_hex(16))

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()

    def meet(
        self,
        me: int,
        doors: Sequence[Door],
        key: bytes,
        patience: float,
        secure: Secure | None = None,
    ) -> list[socket.socket | None]:
        """A connection to every other task, by number; None for this one."""
        deadline = time.monotonic() + patience
        secret = hmac.digest(key, "".join(door.nonce for door in doors).encode(), "sha256")
        meeting = _Handshakes(self._listener, me, doors, secret, secure)
        try:
            return meeting.held(deadline)
        except OSError as problem:
            for link in meeting.met:
                if link is not None:
                    link.close()
            raise PeerLost(f"task {me} could not meet the others: {problem}") from problem
        finally:
            meeting.close()


class _Handshakes:
    """The handshakes of a task with all others, side by side."""

    def __init__(
        self,
        listener: socket.socket,
        me: int,
        doors: Sequence[Door],
        secret: bytes,
        secure: Secure | None,
    ) -> None:
        self.met: list[socket.socket | None] = [None] * len(doors)
        self._listener = listener
        self._me = me
        self._doors = doors
        self._secret = secret
        self._secure = secure
        self._selector = selectors.DefaultSelector()
        self._strangers = Strangers(listener, self._selector, self._drop)
        self._steps: dict[socket.socket, tuple[int | None, Steps[None]]] = {}
        self._again: list[tuple[float, int]] = []

    def held(self, deadline: float) -> list[socket.socket | None]:
        """All connections; TimeoutError past the deadline."""
        for task in range(self._me):
            self._call(task)
        while missing := [t for t, c in enumerate(self.met) if c is None and t != self._me]:
            left = deadline - time.monotonic()
            if left <= 0:
                named = ", ".join(str(task) for task in missing[:5])
                raise TimeoutError(f"no time left, and no word of task {named}")
            waits = [left, self._strangers.wait(), _AGAIN if self._again else None]
            for key, _ in self._selector.select(min(w for w in waits if w is not None)):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj in self._steps:  # else it was dropped meanwhile
                    self._go_on(cast("socket.socket", key.fileobj))
            self._strangers.attend()
            due = [task for when, task in self._again if when <= time.monotonic()]
            self._again = [each for each in self._again if each[1] not in due]
            for task in due:
                self._call(task)
        return self.met

    def close(self) -> None:
        """Hang up on all who have not been met."""
        for connection in list(self._steps):
            self._drop(connection)
        self._selector.close()

    def _call(self, task: int) -> None:
        steps = _call(self._doors[task], self._me, task, self._secret, self._secure, self.met)
        self._advance(task, steps)

    def _accept(self) -> None:
        connection = self._strangers.accept()
        if connection is None:
            return
        with suppress(OSError):  # it may be gone already
            connection.setblocking(False)
            if self._secure is not None:
                connection = self._secure.wrapped(connection, called=True)
            self._strangers.add(connection)
            steps = _answer(connection, self._me, self._secret, self._secure, self.met)
            self._advance(None, steps, connection)

    def _go_on(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        call, steps = self._steps.pop(connection)
        self._advance(call, steps, connection)

    def _advance(
        self, call: int | None, steps: Steps[None], stranger: socket.socket | None = None
    ) -> None:
        """Do what can be done without waiting; `call` is the task that is called, if one is."""
        try:
            connection, event = next(steps)
        except StopIteration:
            done = True
        except OSError as problem:
            done = True
            if call is not None:
                if not isinstance(problem, _CALL_AGAIN):
                    raise
                self._again.append((time.monotonic() + _AGAIN, call))
        else:
            done = False
            self._steps[connection] = call, steps
            self._selector.register(connection, event)
        if done and stranger is not None:
            self._strangers.discard(stranger)

    def _drop(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        _, steps = self._steps.pop(connection)
        steps.close()
        connection.close()


def _call(
    door: Door,
    me: int,
    task: int,
    secret: bytes,
    secure: Secure | None,
    met: list[socket.socket | None],
) -> Steps[None]:
    connection = yield from _connect(door)
    try:
        if secure is not None:
            connection = secure.wrapped(connection, called=False)
            yield from _patiently(connection, connection.do_handshake)
            secure.check(connection)
        ours = secrets.token_bytes(_SIZE)
        yield from _sent(connection, _HELLO.pack(me, ours))
        answer = yield from _receive(connection, 2 * _SIZE)
        if not hmac.compare_digest(answer[:_SIZE], _proof(secret, b"called", me, task, ours)):
            raise ConnectionError(f"task {task} does not know the key")
        yield from _sent(connection, _proof(secret, b"caller", me, task, answer[_SIZE:]))
        yield from _receive(connection, len(_WELCOME))
    except BaseException:
        connection.close()
        raise
    met[task] = connection


def _answer(
    connection: socket.socket,
    me: int,
    secret: bytes,
    secure: Secure | None,
    met: list[socket.socket | None],
) -> Steps[None]:
    try:
        if secure is not None:
            assert isinstance(connection, ssl.SSLSocket)
            yield from _patiently(connection, connection.do_handshake)
            secure.check(connection)
        hello = yield from _receive(connection, _HELLO.size)
        caller, theirs = _HELLO.unpack(hello)
        if not me < caller < len(met):
            raise ConnectionError("nobody of that number is to call")
        ours = secrets.token_bytes(_SIZE)
        yield from _sent(connection, _proof(secret, b"called", caller, me, theirs) + ours)
        proof = yield from _receive(connection, _SIZE)
        if not hmac.compare_digest(proof, _proof(secret, b"caller", caller, me, ours)):
            raise ConnectionError("it does not know the key")
        yield from _sent(connection, _WELCOME)
    except BaseException:
        connection.close()
        raise
    before = met[caller]
    if before is not None:  # it calls again, so it has not heard that it is welcome
        before.close()
    met[caller] = connection


def _connect(door: Door) -> Steps[socket.socket]:
    problem = OSError(f"{door.host} has no address")
    found = socket.getaddrinfo(door.host, door.port, type=socket.SOCK_STREAM)
    for family, kind, protocol, _, address in found:
        connection = socket.socket(family, kind, protocol)
        try:
            connection.setblocking(False)
            code = connection.connect_ex(address)
            if code == errno.EINPROGRESS:
                yield connection, selectors.EVENT_WRITE
                code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if not code:
                return connection
            problem = OSError(code, os.strerror(code))
        except BaseException:
            connection.close()
            raise
        connection.close()
    raise problem


def _proof(secret: bytes, side: bytes, caller: int, called: int, challenge: bytes) -> bytes:
    return hmac.digest(secret, side + struct.pack("<qq", caller, called) + challenge, "sha256")


def _sent(connection: socket.socket, data: bytes) -> Steps[None]:
    while data:
        waiting = selectors.EVENT_WRITE
        sent = yield from _patiently(connection, lambda: connection.send(data), waiting)  # noqa: B023
        data = data[sent:]


def _receive(connection: socket.socket, size: int) -> Steps[bytes]:
    received = bytearray()
    while len(received) < size:
        left = size - len(received)
        chunk = yield from _patiently(connection, lambda: connection.recv(left))  # noqa: B023
        if not chunk:
            raise _HungUp("the other end hung up")
        received += chunk
    return bytes(received)


def _patiently(
    connection: socket.socket, attempt: Callable[[], T], waiting: int = selectors.EVENT_READ
) -> Steps[T]:
    """What an attempt gives, once it need not wait."""
    while True:
        try:
            return attempt()
        except BlockingIOError:
            yield connection, waiting
        except ssl.SSLWantReadError:
            yield connection, selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            yield connection, selectors.EVENT_WRITE
