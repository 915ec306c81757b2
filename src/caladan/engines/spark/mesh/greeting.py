"""Who may connect: tasks of the same attempt of the same job, and nobody else.

A task listens where Spark says it is, on any free port, and is told by the driver where the others
listen. It calls those before it and is called by those after it. Both ends prove that they know the
key of the job and the nonces of this attempt, each by an HMAC of the other's random challenge; a
task of an earlier attempt that is still around does not know the nonces.

    caller ── who it is, its challenge ──►
           ◄── proof, challenge ──
           ── proof ──►

Where what is sent is to be encrypted, all of this happens inside TLS (secure.py).
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from caladan.engines.spark.mesh.secure import Secure

_HELLO: Final = struct.Struct("<q32s")
_SIZE: Final = 32  # bytes of a challenge, and of a proof
_STRANGER: Final = 5.0  # seconds that somebody who calls has to prove who it is


@dataclass(frozen=True, slots=True)
class Door:
    """Where a task listens, and its nonce for this attempt."""

    host: str
    port: int
    nonce: str


class PeerLost(ConnectionError):
    """A peer is gone, hangs, or was never there."""


class Doorway:
    """A task that listens; `door` is what the others need to know."""

    def __init__(self, host: str, tasks: int) -> None:
        self._listener = socket.create_server((host, 0), backlog=tasks + 8)
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
        met: list[socket.socket | None] = [None] * len(doors)
        try:
            for task in range(me):
                met[task] = _called(doors[task], me, task, secret, deadline, secure)
            while any(link is None for link in met[me + 1 :]):
                self._listener.settimeout(_left(deadline))
                stranger, _ = self._listener.accept()
                caller, connection = _answered(stranger, me, secret, secure)
                if caller is None or not me < caller < len(doors) or met[caller] is not None:
                    connection.close()
                else:
                    met[caller] = connection
        except OSError as problem:
            for link in met:
                if link is not None:
                    link.close()
            raise PeerLost(f"task {me} could not meet the others: {problem}") from problem
        return met


def _called(
    door: Door, me: int, task: int, secret: bytes, deadline: float, secure: Secure | None
) -> socket.socket:
    connection = socket.create_connection((door.host, door.port), _left(deadline))
    try:
        connection.settimeout(_left(deadline))
        if secure is not None:
            connection = secure.calling(connection)
        ours = secrets.token_bytes(_SIZE)
        connection.sendall(_HELLO.pack(me, ours))
        proof, theirs = _exactly(connection, _SIZE), _exactly(connection, _SIZE)
        if not hmac.compare_digest(proof, _proof(secret, b"called", me, task, ours)):
            raise ConnectionError(f"task {task} does not know the key")
        connection.sendall(_proof(secret, b"caller", me, task, theirs))
    except OSError:
        connection.close()
        raise
    return connection


def _answered(
    connection: socket.socket, me: int, secret: bytes, secure: Secure | None
) -> tuple[int | None, socket.socket]:
    """Who calls, None if it cannot prove it; and the connection to go on with."""
    with suppress(OSError):
        connection.settimeout(_STRANGER)
        if secure is not None:
            connection = secure.called(connection)
        caller, theirs = _HELLO.unpack(_exactly(connection, _HELLO.size))
        ours = secrets.token_bytes(_SIZE)
        connection.sendall(_proof(secret, b"called", caller, me, theirs) + ours)
        proof = _exactly(connection, _SIZE)
        if hmac.compare_digest(proof, _proof(secret, b"caller", caller, me, ours)):
            return caller, connection
    return None, connection


def _proof(secret: bytes, side: bytes, caller: int, called: int, challenge: bytes) -> bytes:
    return hmac.digest(secret, side + struct.pack("<qq", caller, called) + challenge, "sha256")


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no time left")
    return left


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionError("the other end hung up")
        received += chunk
    return bytes(received)
