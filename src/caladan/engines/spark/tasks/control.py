"""The line between the driver and its tasks while a job runs.

The driver listens (`Control`), tasks call (`Line`). A task tells what happens, so that progress and
stats are live; the driver tells tasks to stop, and may answer them. Messages are JSON objects, each
behind its length; nothing that arrives is ever executed.

Both ends prove that they know the key of the job, which Spark brings to the tasks with the work:
each answers the other's random challenge with an HMAC. What is said after that is neither
encrypted nor signed, as little as Spark's own traffic is by default; it holds numbers and names of
relations, no facts. Who has proved nothing yet is a stranger, with little time (strangers.py).

    driver                                      task
    with Control(host, heard) as control:       line = Line.connect(address, {"part": 3})
        … a job whose tasks get                 line.send({"round": 1})
          `control.address` …                   line.receive(timeout)   the driver's answers
        control.stop()                          line.on_stop(callback)
"""

from __future__ import annotations

import hmac
import json
import secrets
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias, cast

from caladan.engines.spark.tasks.strangers import Strangers
from caladan.program.events import sendable

Message: TypeAlias = dict[str, Any]
Heard: TypeAlias = "Callable[[Peer, Message], None]"

_NONCE: Final = 32
_PROOF: Final = 32
_LENGTH: Final = struct.Struct(">I")
_LONGEST: Final = 64 << 20  # bytes of a message; a longer one is no message of ours
_PATIENCE: Final = 10.0  # seconds for a task to get through, or for a message to be taken
_AGAIN: Final = 0.05  # seconds until a task that was hung up on calls again
_REFUSALS: Final = 3  # calls that end after the proof: it is wrong, or there was no time to read it
_NO_MESSAGE: Final = (ValueError, RecursionError)  # what reading JSON raises, if it is none of ours


class _HungUp(ConnectionError):
    """The other end hung up."""


class _Refusal(ConnectionError):
    """The other end hung up once it had our proof, or while that was on its way."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the driver listens, and the key of the job. Not to be logged: the key is a secret."""

    host: str
    port: int
    key: bytes

    def __repr__(self) -> str:
        return f"Address({self.host}:{self.port})"


class Peer:
    """A task, as the driver sees it. `hello` is how it introduced itself."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.buffer = bytearray()
        self.nonce = secrets.token_bytes(_NONCE)
        self.is_known = False
        self.hello: Message = {}

    def send(self, message: Mapping[str, Any]) -> None:
        """Tell the task something; one that is gone hears nothing."""
        with suppress(OSError):
            self.connection.sendall(_frame_message(message))


class Control:
    """The driver's end. `heard` is called with every message, on a thread of its own.

    An exception that `heard` raises ends the job: it is kept, and tasks are told to stop.
    """

    def __init__(self, host: str, heard: Heard, *, bind: str | None = None) -> None:
        self._heard = heard
        self._peers: dict[socket.socket, Peer] = {}
        self._listener = socket.create_server((bind or host, 0), backlog=128)
        self._waker, self._wake = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._strangers = Strangers(self._listener, self._selector, self._hang_up)
        self._lock = threading.Lock()
        self._gone = threading.Condition(self._lock)
        self._is_stopping = False
        self.address = Address(host, self._listener.getsockname()[1], secrets.token_bytes(32))
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._listen, name="caladan-control", daemon=True)

    def __enter__(self) -> Control:
        self._selector.register(self._waker, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._wake.send(b"x")
        self._thread.join()
        for each in (*self._peers, self._listener, self._waker, self._wake):
            each.close()
        self._selector.close()

    def stop(self) -> None:
        """Tell every task to stop, also those that call from now on."""
        with self._lock:
            self._is_stopping = True
            peers = [peer for peer in self._peers.values() if peer.hello]
        for peer in peers:
            peer.send({"stop": True})

    def drain(self, timeout: float = 1.0) -> None:
        """Wait until every task has hung up: what they said last may still be on its way."""
        with self._lock:
            self._gone.wait_for(lambda: not any(p.is_known for p in self._peers.values()), timeout)

    def _listen(self) -> None:
        while True:
            for key, _ in self._selector.select(self._strangers.wait()):
                if key.fileobj is self._waker:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj in self._peers:  # else it was hung up on meanwhile
                    self._read(cast("socket.socket", key.fileobj))
            self._strangers.attend()

    def _accept(self) -> None:
        connection = self._strangers.accept()
        if connection is None:
            return
        try:
            connection.settimeout(_PATIENCE)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = Peer(connection)
            connection.sendall(peer.nonce)
        except OSError:  # it is gone already
            connection.close()
            return
        with self._lock:
            self._peers[connection] = peer
        self._selector.register(connection, selectors.EVENT_READ)
        self._strangers.add(connection)

    def _read(self, connection: socket.socket) -> None:
        peer = self._peers[connection]
        try:
            received = connection.recv(1 << 16)
            peer.buffer += received
            ok = bool(received) and (peer.is_known or self._shake(peer)) and self._take(peer)
        except (OSError, *_NO_MESSAGE):
            ok = False
        if not ok:
            self._strangers.discard(connection)
            self._hang_up(connection)

    def _hang_up(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        with self._lock:
            del self._peers[connection]
            self._gone.notify_all()
        connection.close()

    def _shake(self, peer: Peer) -> bool:
        """The task's challenge and proof; False if the proof is wrong."""
        if len(peer.buffer) < _NONCE + _PROOF:
            return True
        theirs, proof = bytes(peer.buffer[:_NONCE]), bytes(peer.buffer[_NONCE:][:_PROOF])
        key = self.address.key
        if not hmac.compare_digest(proof, _proof(key, b"task", peer.nonce, theirs)):
            return False
        del peer.buffer[: _NONCE + _PROOF]
        peer.is_known = True
        self._strangers.discard(peer.connection)
        peer.connection.sendall(_proof(key, b"driver", theirs, peer.nonce))
        return True

    def _take(self, peer: Peer) -> bool:
        """Hand on the messages that are complete; the first introduces the task."""
        if not peer.is_known:
            return len(peer.buffer) < _NONCE + _PROOF
        while len(peer.buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(peer.buffer)
            if len(peer.buffer) < _LENGTH.size + _check_length(length):
                break
            message = _message(peer.buffer[_LENGTH.size : _LENGTH.size + length])
            del peer.buffer[: _LENGTH.size + length]
            self._tell(peer, message)
        return True

    def _tell(self, peer: Peer, message: Message) -> None:
        if not peer.hello:
            with self._lock:
                peer.hello = message
                is_stopping = self._is_stopping
            if is_stopping:
                peer.send({"stop": True})
        try:
            self._heard(peer, message)
        except BaseException as failure:
            if self.failure is None:
                self.failure = failure
            self.stop()


class Line:
    """A task's end."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._lock = threading.Lock()
        self._answers: SimpleQueue[Message | None] = SimpleQueue()
        self._stopped = threading.Event()
        self._callback: Callable[[], None] | None = None
        threading.Thread(target=self._listen, name="caladan-line", daemon=True).start()

    @staticmethod
    def connect(address: Address, hello: Mapping[str, Any]) -> Line:
        """Call the driver; OSError if it cannot be reached or does not know the key.

        If strangers crowd its door, it may take this task for one of them and hang up.
        """
        deadline = time.monotonic() + _PATIENCE
        refused = 0
        while True:
            try:
                line = Line(Line._called(address, deadline))
            except (_Refusal, _HungUp, ConnectionResetError, BrokenPipeError) as problem:
                refused += isinstance(problem, _Refusal)
                if time.monotonic() > deadline or refused > _REFUSALS:
                    raise
                time.sleep(_AGAIN)
            else:
                line.send(hello)
                return line

    @staticmethod
    def _called(address: Address, deadline: float) -> socket.socket:
        left = max(deadline - time.monotonic(), 0.001)
        connection = socket.create_connection((address.host, address.port), left)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            theirs, ours = _exactly(connection, _NONCE), secrets.token_bytes(_NONCE)
            connection.sendall(ours + _proof(address.key, b"task", theirs, ours))
            try:
                proof = _exactly(connection, _PROOF)
            except ConnectionError:
                raise _Refusal("the driver does not know us") from None
            if not hmac.compare_digest(proof, _proof(address.key, b"driver", ours, theirs)):
                raise ConnectionError("the driver does not know the key of the job")
            connection.settimeout(None)
        except OSError:
            connection.close()
            raise
        return connection

    @property
    def is_stopped(self) -> bool:
        """Whether the driver said to stop."""
        return self._stopped.is_set()

    def on_stop(self, callback: Callable[[], None] | None) -> None:
        """Have a function called, on another thread, when the driver says to stop, or has."""
        with self._lock:
            self._callback = callback
        if callback is not None and self.is_stopped:
            callback()

    def send(self, message: Mapping[str, Any]) -> None:
        """Tell the driver something; one that is gone hears nothing."""
        framed = _frame_message(message)
        with suppress(OSError), self._lock:
            self._socket.sendall(framed)

    def receive(self, timeout: float) -> Message:
        """The next answer of the driver; OSError if there is none in time, or no driver."""
        try:
            message = self._answers.get(timeout=timeout)
        except Empty:
            raise TimeoutError("the driver did not answer") from None
        if message is None:
            raise ConnectionError("the driver is gone")
        return message

    def close(self) -> None:
        """End the call."""
        self.on_stop(None)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _listen(self) -> None:
        with suppress(OSError, *_NO_MESSAGE):
            while True:
                (length,) = _LENGTH.unpack(_exactly(self._socket, _LENGTH.size))
                message = _message(_exactly(self._socket, _check_length(length)))
                if message.get("stop"):
                    self._stopped.set()
                    with self._lock:
                        callback = self._callback
                    if callback is not None:
                        callback()
                else:
                    self._answers.put(message)
        self._answers.put(None)


def _frame_message(message: Mapping[str, Any]) -> bytes:
    body = json.dumps(message, separators=(",", ":"), default=sendable).encode()
    return _LENGTH.pack(_check_length(len(body))) + body


def _message(body: bytes | bytearray) -> Message:
    """A message that has come; one of `_NO_MESSAGE` if it is none."""
    found = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError("a message is an object")
    return cast("Message", found)


def _check_length(length: int) -> int:
    if length > _LONGEST:
        raise ValueError(f"a message of {length} bytes, where {_LONGEST} is the most")
    return length


def _proof(key: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, b"".join(parts), "sha256")


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(min(size - len(received), 1 << 16))
        if not chunk:
            raise _HungUp("the other end hung up")
        received += chunk
    return bytes(received)
