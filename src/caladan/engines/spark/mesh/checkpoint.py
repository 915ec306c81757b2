"""Checkpoints: what the parts of a clique hold after a round, in files from which others go on.

All tasks save after the same round, each its own part, as soon as one of them finds it is time. A
round counts as saved once the files of all its parts are there; a task that saves again knows that
they are, since everybody has sent a message after writing. So the last but one is removed then.

    FOLDER/caladan-FINGERPRINT/ROUND-ATTEMPT-PARTofTASKS.saved

The fingerprint says which rules over which facts this is (`fingerprint`), so whoever comes with
the same goes on where these tasks were: the next attempt of a stage, or another run after the
driver was lost. If there are more tasks now, or fewer, all that was saved is placed anew. Parts of
different attempts are never put together: sums of doubles may differ in their last digits. A file
is a line with the format, a JSON object, the values that are split, the sections of the part
(snapshot.py), and a SHA-256 of all that. One that is damaged is not used, and nor is its round.

A fingerprint is a digest of all that decides what the parts of a clique hold after a round: this
version of Caladan, the rules and types, how tasks go about it, and every fact that goes in. How
many tasks there are and which values they split is told by the files. Facts are digested in an
order of their own, so that it does not matter in which one they were read.

Nothing here is needed for the answer. Where files cannot be written tasks go on without.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import numpy as np

from caladan.columns.domains import CodedDomain, Domain, SortedDomain, TextDomain
from caladan.columns.layout import concatenate
from caladan.columns.packed import PackedRelation
from caladan.columns.ranks import CODED
from caladan.columns.relation import StoredRelation
from caladan.engines.spark.mesh import snapshot
from caladan.engines.spark.mesh.shuffle import stream_of
from caladan.engines.spark.mesh.snapshot import SnapshotSection
from caladan.engines.spark.session.staging import create_file, open_filesystem
from caladan.program.diagnostics import without_user
from caladan.program.events import sendable
from caladan.rules.program import DeltaProgram

FORMAT: Final = 6
"""Of what is saved; it also changes where the same facts come to lie elsewhere."""

Relations = Mapping[str, tuple[StoredRelation, Sequence[Domain]]]


def fingerprint(program: DeltaProgram, relations: Relations, *settings: object) -> str:
    """The digest of a program with one clique, of what goes into it, and of some settings.

    `relations` has every relation that has facts from the start; their computed domains have no
    other values yet.
    """
    rules = (program.relations, program.cliques)
    digest = hashlib.sha256(repr((FORMAT, _version(), settings, rules)).encode())
    for name, (relation, domains) in sorted(relations.items(), key=lambda item: item[0]):
        digest.update(repr((name, relation.count())).encode())
        for domain in domains:
            _add_domain(digest.update, domain)
        body = relation.body
        if isinstance(body, PackedRelation) and not any(domain.grows for domain in domains):
            for run in body.base.all_runs:  # one, sorted
                digest.update(run.keys.data)
        else:
            _add_rows(digest.update, relation, domains)
    return digest.hexdigest()


def _version() -> str:
    """Another version may number, pack or spread differently."""
    try:
        return version("caladan")
    except PackageNotFoundError:  # shipped to the executors as files: FORMAT has to do
        return ""


def _add_domain(update: Callable[[Any], None], domain: Domain) -> None:
    update(repr((type(domain).__name__, domain.kind.name)).encode())
    match domain:
        case CodedDomain():
            update(stream_of(domain.values))
        case SortedDomain():
            update(domain.ranks(np.arange(domain.size, dtype=np.uint32)).data)
        case _ if not domain.grows:  # distances from a base
            update(repr((domain.size, domain.ranks(np.zeros(1, np.uint32)).tolist())).encode())
        case _:
            pass  # words of what grows depend on the order in which values were seen


def _add_rows(
    update: Callable[[Any], None], relation: StoredRelation, domains: Sequence[Domain]
) -> None:
    columns = concatenate(relation.blocks(), relation.arity)
    if not columns:
        return
    ranks = [domain.ranks(words) for domain, words in zip(domains, columns, strict=True)]
    order = np.lexsort(ranks)
    for domain, words, values in zip(domains, columns, ranks, strict=True):
        if isinstance(domain, TextDomain):
            update(stream_of(domain.arrow(words[order], CODED[domain.kind])))
        else:
            update(np.ascontiguousarray(values[order]).data)


_MAGIC: Final = b"caladan checkpoint %d\n" % FORMAT
_LENGTH: Final = struct.Struct("<q")
_DIGEST: Final = 32
_CHUNK: Final = 8 << 20  # bytes that are written or read between two heartbeats
_NAME: Final = re.compile(r"(\d+)-([0-9a-f]{16})-(\d+)of(\d+)\.saved")
_FOLDER: Final = re.compile(r"caladan-[0-9a-f]{64}")
FAILURES: Final = (OSError, ValueError, NotImplementedError)
"""What file systems raise: a disk that is full, a name they do not like."""


class CorruptFile(Exception):
    """A file is not what was once written."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where parts are saved, and how many seconds apart."""

    folder: str
    seconds: float


@dataclass(frozen=True, slots=True, order=True)
class SavePoint:
    """A round that an attempt saved, of so many tasks."""

    round: int
    attempt: str
    tasks: int


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """What a part has to know besides its shelves: sums of its own, by rule number at the end."""

    facts: int
    solutions: Mapping[tuple[int, str | None], tuple[int, float]]


class CheckpointFiles:
    """The files of all parts, in a folder."""

    def __init__(self, folder: str, beat: Callable[[], None]) -> None:
        self.folder = folder
        self.beat = beat

    def found(self) -> dict[SavePoint, bool]:
        """The rounds that are there, and whether all parts of them are."""
        from pyarrow import fs

        try:
            system, path = open_filesystem(self.folder)
            names = [i.base_name for i in system.get_file_info(fs.FileSelector(path, True))]
        except FAILURES:
            return {}
        matches = [match for name in names if (match := _NAME.fullmatch(name))]
        parts: dict[SavePoint, set[int]] = {}
        for m in matches:
            parts.setdefault(SavePoint(int(m[1]), m[2], int(m[4])), set()).add(int(m[3]))
        return {saved: there == set(range(saved.tasks)) for saved, there in parts.items()}

    def write(
        self,
        saved: SavePoint,
        part: int,
        state: CheckpointState,
        parts: Iterable[Sequence[SnapshotSection]],
    ) -> None:
        """Save a round of a part; one of FAILURES if that is not possible."""
        uri = self._uri(saved, part)
        system, path = open_filesystem(uri)
        system.create_dir(path.rpartition("/")[0])
        # Elsewhere a file is seen once it is whole; here it would be before.
        shown_at_once = system.type_name in ("local", "hdfs")
        draft = f".{secrets.token_hex(8)}.part" if shown_at_once else ""
        with create_file(f"{uri}{draft}") as stream:
            try:
                self._write(stream, state, parts)
                stream.close()
                if draft:
                    system.move(f"{path}{draft}", path)
            except BaseException:
                with suppress(*FAILURES):
                    system.delete_file(f"{path}{draft}")
                raise

    def _write(
        self, stream: Any, state: CheckpointState, parts: Iterable[Sequence[SnapshotSection]]
    ) -> None:
        digest = hashlib.sha256()
        for buffer in self._buffers(state, parts):
            view = memoryview(buffer).cast("B")
            for start in range(0, len(view), _CHUNK):
                chunk = view[start : start + _CHUNK]
                digest.update(chunk)
                stream.write(chunk)
                self.beat()
        stream.write(digest.digest())

    def _buffers(
        self, state: CheckpointState, parts: Iterable[Sequence[SnapshotSection]]
    ) -> Iterator[Any]:
        told = {
            "facts": state.facts,
            "solutions": [[*key, *done] for key, done in state.solutions.items()],
        }
        head = json.dumps(told, default=sendable).encode()
        head += b" " * (-(len(_MAGIC) + _LENGTH.size + len(head)) % 8)  # arrays lie at eights
        yield _MAGIC + _LENGTH.pack(len(head)) + head
        for each in parts:
            yield from snapshot.write_snapshot(each)

    def read(self, saved: SavePoint, part: int) -> tuple[CheckpointState, bytearray, int]:
        """A part: its state, all its bytes, and where the shelves begin; Damaged if it is."""
        try:
            data = self._bytes(saved, part)
        except FAILURES as problem:
            raise CorruptFile(f"it cannot be read: {without_user(str(problem))}") from problem
        if not data.startswith(_MAGIC):
            raise CorruptFile("it is not a checkpoint of this version")
        content = memoryview(data)[:-_DIGEST]
        digest = hashlib.sha256()
        for start in range(0, len(content), _CHUNK):
            digest.update(content[start : start + _CHUNK])
            self.beat()
        if digest.digest() != bytes(memoryview(data)[len(content) :]):
            raise CorruptFile("its checksum is wrong")
        at = len(_MAGIC)
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        try:
            told = json.loads(bytes(content[at : at + length]))
            solutions = {(int(r), d): (int(n), float(s)) for r, d, n, s in told["solutions"]}
            state = CheckpointState(int(told["facts"]), solutions)
        except (ValueError, KeyError, TypeError):
            raise CorruptFile("it is not a checkpoint of this version") from None
        return state, data, at + length

    def _bytes(self, saved: SavePoint, part: int) -> bytearray:
        system, path = open_filesystem(self._uri(saved, part))
        with system.open_input_file(path) as file:
            data = bytearray(file.size())
            at = 0
            while at < len(data):
                chunk = file.read(_CHUNK)
                if not chunk:
                    raise OSError("it ends too early")
                data[at : at + len(chunk)] = chunk
                at += len(chunk)
                self.beat()
        return data

    def remove(self, saved: SavePoint, parts: Iterable[int]) -> None:
        """Remove parts of a round, as far as they are there."""
        for part in parts:
            with suppress(*FAILURES):
                system, path = open_filesystem(self._uri(saved, part))
                system.delete_file(path)

    def _uri(self, saved: SavePoint, part: int) -> str:
        return f"{self.folder}/{saved.round:09}-{saved.attempt}-{part}of{saved.tasks}.saved"


def folder_of(fingerprint: str) -> str:
    """The name of the folder, within that of the user, for what has a fingerprint."""
    return f"caladan-{fingerprint}"


def prepare_folder(folder: str) -> None:
    """See that the folder of the user is there and can be written to; else one of FAILURES."""
    system, path = open_filesystem(folder)
    system.create_dir(path)
    probe = f"caladan-{secrets.token_hex(8)}.probe"
    with create_file(f"{folder.rstrip('/')}/{probe}") as stream:
        stream.write(b"caladan")
    system.delete_file(f"{path.rstrip('/')}/{probe}")


def remove_saved(folder: str, name: str) -> None:
    """Remove what has been saved under a name that a task told, as far as it is there."""
    if _FOLDER.fullmatch(name):
        with suppress(*FAILURES):
            system, path = open_filesystem(f"{folder.rstrip('/')}/{name}")
            system.delete_dir(path)
