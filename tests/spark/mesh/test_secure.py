"""Tasks that encrypt what they send each other."""

import socket
import ssl
import stat
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from tests.spark.mesh.test_links import KEY, mesh
from tests.spark.mesh.test_strangers import assert_connected, besieged, met, slow

import caladan
from caladan.engines.spark.mesh import encryption, job
from caladan.engines.spark.mesh.encryption import Identity, Secure
from caladan.engines.spark.mesh.handshake import Doorway, PeerLost
from caladan.engines.spark.mesh.links import Links
from caladan.engines.spark.mesh.task import Mesh
from caladan.engines.spark.strategy import CannotServe

CLOSURE = """database({arc(A: integer, B: integer)}).
tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), tc(C, B). query tc(A, B)."""


@pytest.fixture(scope="module")
def identity(spark: SparkSession) -> Identity:
    return encryption.certificate(spark.sparkContext)


@pytest.fixture(scope="module")
def other() -> Identity:
    """Made in the same way for somebody else."""
    return encryption.new_identity()


def shaken(secure: Secure, connection: socket.socket, *, called: bool) -> ssl.SSLSocket:
    """A connection after the handshake."""
    safe = secure.wrapped(connection, called=called)
    safe.do_handshake()
    secure.check(safe)
    return safe


@pytest.mark.parametrize("tasks", [2, 3])
def test_everybody_gets_everything(identity: Identity, tasks: int) -> None:
    def work(me: int, links: Links) -> list[list[bytes | None]]:
        found: list[list[bytes | None]] = []
        for number in range(20):
            sent = [[b"", f"{me} to {task} in {number}".encode()] for task in range(tasks)]
            came = links.exchange(sent)
            found.append([None if each is None else bytes(each) for each in came])
        return found

    for me, rounds in enumerate(mesh(tasks, work, secure=Secure(identity))):
        for number, came in enumerate(rounds):
            wanted = [f"{task} to {me} in {number}".encode() for task in range(tasks)]
            assert came == [None if task == me else wanted[task] for task in range(tasks)]


def test_messages_larger_than_any_buffer(identity: Identity) -> None:
    """Both send much at once, in pieces of all sizes; nobody may wait for the other to read."""
    chance = np.random.default_rng(3)
    data = chance.bytes(6_000_000)
    cuts = np.sort(chance.integers(0, len(data), 300)).tolist()
    pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]

    def work(me: int, links: Links) -> bool:
        came = [links.exchange([pieces] * 2) for _ in range(3)]
        return all(bytes(each) == data for both in came for each in both if each is not None)

    assert mesh(2, work, secure=Secure(identity)) == [True, True]


def test_nobody_else_can_read_it(identity: Identity) -> None:
    """What travels does not hold what was sent."""
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    theirs.settimeout(10)
    middle: list[bytes] = []
    one, other = socket.socketpair()

    def copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):  # the ends hang up as they please
            while data := source.recv(1 << 16):
                middle.append(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    threads = [threading.Thread(target=copy, args=pair) for pair in ((theirs, one), (one, theirs))]
    found: list[bytes] = []

    def receive() -> None:
        other.settimeout(10)
        with shaken(Secure(identity), other, called=True) as connection:
            found.append(connection.recv(100))

    threads.append(threading.Thread(target=receive))
    for thread in threads:
        thread.start()
    with shaken(Secure(identity), ours, called=False) as connection:
        connection.sendall(b"a fact that is nobody's business")
        assert connection.version() == "TLSv1.3"
    for thread in threads:
        thread.join()
    assert found == [b"a fact that is nobody's business"]
    assert b"business" not in b"".join(middle)
    for each in (theirs, one):
        each.close()


def test_strangers_stay_outside(identity: Identity, other: Identity) -> None:
    """One does not encrypt, one has a certificate of its own, one has none; then the peer comes."""
    doorways = [Doorway("127.0.0.1", 2) for _ in range(2)]
    doors = [each.door for each in doorways]
    intruder = Doorway("127.0.0.1", 2)
    found: list[Any] = []
    first = threading.Thread(
        target=lambda: found.append(doorways[0].meet(0, doors, KEY, 30, Secure(identity)))
    )
    first.start()
    with pytest.raises(PeerLost):
        intruder.meet(1, doors, KEY, 5)
    with pytest.raises(PeerLost):
        intruder.meet(1, doors, KEY, 5, Secure(other))
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname = False
    bare.verify_mode = ssl.CERT_NONE
    plain = socket.create_connection((doors[0].host, doors[0].port), 5)
    with bare.wrap_socket(plain) as connection:
        try:
            assert connection.recv(1) == b""  # it is told nothing
        except ssl.SSLError as problem:
            assert "CERTIFICATE_REQUIRED" in str(problem)
    found.append(doorways[1].meet(1, doors, KEY, 20, Secure(identity)))
    first.join()
    ends = [end for links in found for end in links if end is not None]
    assert len(ends) == 2
    for each in (*ends, *doorways, intruder):
        each.close()


def test_tasks_meet_among_strangers(identity: Identity) -> None:
    """Strangers who keep their handshake going take no time from the tasks'."""
    doorways = [Doorway("127.0.0.1", 3) for _ in range(3)]
    with besieged([each.door.port for each in doorways], slow, 8):
        assert_connected(met(doorways, secure=Secure(identity)))
    for each in doorways:
        each.close()


def test_a_called_task_is_not_taken_for_another(identity: Identity, other: Identity) -> None:
    doorways = [Doorway("127.0.0.1", 2) for _ in range(2)]
    doors = [each.door for each in doorways]
    failures: list[PeerLost] = []

    def meet(me: int, secure: Secure) -> None:
        try:
            doorways[me].meet(me, doors, KEY, 2, secure)
        except PeerLost as problem:
            failures.append(problem)

    sides = ((0, Secure(other)), (1, Secure(identity)))
    threads = [threading.Thread(target=meet, args=side) for side in sides]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) == 2
    for each in doorways:
        each.close()


def test_the_key_is_kept_secret(
    identity: Identity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not in a repr; the file that OpenSSL reads it from is ours alone, and goes away."""
    modes: list[int] = []

    load = ssl.SSLContext.load_cert_chain

    def watched(self: ssl.SSLContext, path: str) -> None:
        modes.append(stat.S_IMODE(Path(path).stat().st_mode))
        load(self, path)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    Secure(identity)
    assert set(modes) == {0o600}
    assert list(tmp_path.iterdir()) == []
    assert "PRIVATE" in identity.key
    assert "PRIVATE" not in repr(identity)


def test_a_run_that_is_encrypted(
    spark: SparkSession, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[Mesh] = []

    def made(*arguments: Any) -> Mesh:
        used.append(Mesh(*arguments))
        return used[-1]

    monkeypatch.setattr(job, "_encrypts", lambda _: True)
    monkeypatch.setattr(job, "Mesh", made)
    db = caladan.connect(spark)
    db.add("arc", [(i, i + 1) for i in range(30)])
    out = db.run(CLOSURE, strategy="meshed")
    assert out.answer.count() == 30 * 31 // 2
    assert out.stats.strategy == "meshed"
    assert [mesh.identity for mesh in used] == [identity]


def test_values_that_are_split_are_not_told_in_the_clear(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line to the driver is not encrypted: it has their number only."""
    monkeypatch.setattr(job, "_encrypts", lambda _: True)
    db = caladan.connect(spark)
    db.add("arc", [(i, 0) for i in range(1, 301)] + [(0, i) for i in range(301, 651)])
    (clique,) = db.run(CLOSURE, strategy="meshed").stats.cliques
    assert (clique.split, clique.split_values) == (1, [])


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, False),
        ({"spark.network.crypto.enabled": "true"}, True),
        ({"spark.ssl.rpc.enabled": "true"}, True),
        ({"spark.caladan.mesh.encrypt": "true"}, True),
        ({"spark.caladan.mesh.encrypt": "false"}, False),
    ],
)
def test_when_tasks_encrypt(settings: dict[str, str], wanted: bool) -> None:
    assert job._encrypts(settings) is wanted


def test_without_a_certificate_another_strategy_is_taken(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.setattr(encryption, "_made", {})
    with pytest.raises(CannotServe, match=r'pip install "caladan\[encryption\]"'):
        encryption.certificate(spark.sparkContext)
