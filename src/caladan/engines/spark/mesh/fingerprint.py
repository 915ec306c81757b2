"""What a checkpoint belongs to: the same rules over the same facts.

A fingerprint is a digest of all that decides what the parts of a clique hold after a round: this
version of Caladan, the rules and types, how tasks go about it, and every fact that goes in. How
many tasks there are and which values they split is told by the files. Facts are digested in an
order of their own, so that it does not matter in which one they were read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import numpy as np
import pyarrow as pa

from caladan.columns.domains import CodedDomain, Domain, SortedDomain, TextDomain
from caladan.columns.layout import concatenated
from caladan.columns.packed import PackedRelation
from caladan.columns.relation import StoredRelation
from caladan.delta.program import DeltaProgram

FORMAT: Final = 3
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
            update(_stream(domain.values))
        case SortedDomain():
            update(domain.ranks(np.arange(domain.size, dtype=np.uint32)).data)
        case _ if not domain.grows:  # distances from a base
            update(repr((domain.size, domain.ranks(np.zeros(1, np.uint32)).tolist())).encode())
        case _:
            pass  # words of what grows depend on the order in which values were seen


def _add_rows(
    update: Callable[[Any], None], relation: StoredRelation, domains: Sequence[Domain]
) -> None:
    columns = concatenated(relation.blocks(), relation.arity)
    if not columns:
        return
    ranks = [domain.ranks(words) for domain, words in zip(domains, columns, strict=True)]
    order = np.lexsort(ranks)
    for domain, words, values in zip(domains, columns, ranks, strict=True):
        if isinstance(domain, TextDomain):
            update(_stream(domain.arrow(words[order], pa.string())))
        else:
            update(np.ascontiguousarray(values[order]).data)


def _stream(values: pa.Array) -> bytes:
    sink: Any = pa.BufferOutputStream()
    table = pa.table({"values": values})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()
