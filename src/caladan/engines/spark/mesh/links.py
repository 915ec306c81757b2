"""The connections of a task: one message to every peer and one from every peer, in each round.

There are no threads: a task sends what it can without waiting and receives what is there, and waits
for all peers at once when there is nothing to do. A peer that is busy for long sends a heartbeat
now and then (`beat`); one that sends nothing at all for longer than our patience hangs, and is
given up. That ends this task, and so the attempt.

A frame is its length in 8 bytes and the message; a heartbeat is a length of -1. A connection may be
one of TLS, which has no call for several buffers at once; there small ones are put together.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from caladan.engines.spark.mesh.handshake import PeerLost

_LENGTH: Final = struct.Struct("<q")
_HEARTBEAT: Final = _LENGTH.pack(-1)
_BUFFERS: Final = 64  # handed to the system in one call
_RECORD: Final = 1 << 14  # bytes that TLS encrypts at once
_NOT_NOW: Final = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_BEATS: Final = 10  # heartbeats in the time after which a peer is given up


class _Peer:
    """A connection, what is still to be sent on it, and what has been received of a frame."""

    def __init__(self, number: int, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        self.number = number
        self.socket = connection
        self.outward: deque[memoryview] = deque()
        self._head = bytearray(_LENGTH.size)
        self._body: bytearray | None = None
        self._have = 0
        self.heard = time.monotonic()

    def send(self) -> None:
        """Send what can be sent without waiting."""
        while self.outward:
            try:
                sent = self._sent()
            except _NOT_NOW:
                return
            while sent:
                first = self.outward[0]
                if sent < first.nbytes:
                    self.outward[0] = first[sent:]
                    return
                sent -= first.nbytes
                self.outward.popleft()

    def _sent(self) -> int:
        if not isinstance(self.socket, ssl.SSLSocket):
            ready = min(len(self.outward), _BUFFERS)
            return self.socket.sendmsg([self.outward[i] for i in range(ready)])
        small: list[memoryview] = []
        size = 0
        while self.outward and size + self.outward[0].nbytes <= _RECORD:
            size += self.outward[0].nbytes
            small.append(self.outward.popleft())
        if small:
            # What TLS could not send it wants to see again, so it stays in one piece.
            self.outward.appendleft(small[0] if len(small) == 1 else memoryview(b"".join(small)))
        return self.socket.send(self.outward[0])

    def receive(self) -> bytearray | None:
        """The message, if it is there in whole."""
        while True:
            target = self._head if self._body is None else self._body
            try:
                got = self.socket.recv_into(memoryview(target)[self._have :])
            except _NOT_NOW:
                return None
            if not got:
                raise PeerLost(f"task {self.number} is gone")
            self.heard = time.monotonic()
            self._have += got
            if self._have < len(target):
                continue
            self._have = 0
            if self._body is not None:
                body, self._body = self._body, None
                return body
            (length,) = _LENGTH.unpack(self._head)
            if length > 0:
                self._body = bytearray(length)


class Links:
    """The connections of one task; an `Exchange`."""

    def __init__(self, connections: Sequence[socket.socket | None], patience: float) -> None:
        self.tasks = len(connections)
        self._peers = [_Peer(n, c) for n, c in enumerate(connections) if c is not None]
        self._patience = patience
        self._beaten = time.monotonic()
        self.sent = 0
        """Bytes sent so far."""

    def exchange(self, messages: Sequence[Sequence[Any] | None]) -> list[bytearray | None]:
        """Send each peer its message and return theirs; the entry of this task is None."""
        came: list[bytearray | None] = [None] * self.tasks
        try:
            now = time.monotonic()
            for peer in self._peers:
                buffers = [memoryview(each) for each in messages[peer.number] or ()]
                length = sum(buffer.nbytes for buffer in buffers)
                self.sent += length + _LENGTH.size
                peer.outward += [memoryview(_LENGTH.pack(length)), *buffers]
                peer.heard = now
                peer.send()
            waiting = list(self._peers)
            while waiting:
                waiting = self._progress(waiting, came)
                if waiting:
                    self._wait(waiting, came)
        except OSError as problem:
            if isinstance(problem, PeerLost):
                raise
            raise PeerLost(f"a connection broke: {problem}") from problem
        return came

    def beat(self) -> None:
        """Tell peers that this task is alive, if it has not said anything for a while."""
        now = time.monotonic()
        if now - self._beaten < self._patience / _BEATS:
            return
        self._beaten = now
        for peer in self._peers:
            if not peer.outward:  # else a frame is under way, which says as much
                peer.outward.append(memoryview(_HEARTBEAT))
            with suppress(OSError):  # the exchange will find out
                peer.send()

    def farewell(self) -> None:
        """Hang up after the last exchange, once every peer is about to.

        A connection that is closed with something unread is reset, and what the peer has not read
        yet would be lost.
        """
        with suppress(OSError):
            for peer in self._peers:
                peer.socket.shutdown(socket.SHUT_WR)
            deadline = time.monotonic() + self._patience
            for peer in self._peers:
                peer.socket.settimeout(max(deadline - time.monotonic(), 0.001))
                while peer.socket.recv(1 << 12):
                    pass
        self.close()

    def close(self) -> None:
        """Hang up at once."""
        for peer in self._peers:
            peer.socket.close()

    def _progress(self, waiting: list[_Peer], came: list[bytearray | None]) -> list[_Peer]:
        """Send and receive what can be; who is still not done."""
        left: list[_Peer] = []
        for peer in waiting:
            if came[peer.number] is None:
                came[peer.number] = peer.receive()
            if peer.outward:
                peer.send()
            if peer.outward or came[peer.number] is None:
                left.append(peer)
        return left

    def _wait(self, waiting: Sequence[_Peer], came: Sequence[bytearray | None]) -> None:
        poll = select.poll()
        for peer in waiting:
            wanted = select.POLLIN if came[peer.number] is None else 0
            poll.register(peer.socket, wanted | (select.POLLOUT if peer.outward else 0))
        poll.poll(1000 * self._patience / _BEATS)
        # A peer that waits for somebody else says nothing meanwhile; so whoever waits beats too.
        self.beat()
        silent = min(waiting, key=lambda peer: peer.heard)
        if came[silent.number] is None and time.monotonic() - silent.heard > self._patience:
            raise PeerLost(f"task {silent.number} has said nothing for {self._patience:g} seconds")
