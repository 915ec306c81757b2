"""A relation with integer columns as the doubles they are compared with.

A negated atom may look integers up by a variable of doubles. There is no order of words that
serves both, so the relation is stored once more, with those columns in the variable's domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from caladan.columns.domains import CodedDomain, Domain, TextDomain
from caladan.columns.layout import Words
from caladan.columns.ranks import Kind, float_ranks, rank_floats
from caladan.columns.relation import StoredRelation


def widened_relation(
    relation: StoredRelation, domains: Sequence[Domain], into: Mapping[int, Domain]
) -> StoredRelation:
    """The relation with some columns in other domains; doubles that are not whole go nowhere."""
    to = StoredRelation([into.get(c, domain) for c, domain in enumerate(domains)])
    for block in relation.blocks():
        keep = np.ones(len(block[0]), np.bool_)
        columns: list[Words] = []
        for c, words in enumerate(block):
            if c in into:
                words, fits = _converted(words, domains[c], into[c])
                keep &= fits
            columns.append(words)
        to.add([words[keep] for words in columns], int(np.count_nonzero(keep)))
    to.flip()
    to.commit()
    return to


def _converted(words: Words, source: Domain, to: Domain) -> tuple[Words, np.ndarray]:
    ranks = source.ranks(words)
    fits = np.ones(len(words), np.bool_)
    if source.kind is Kind.INTEGER and to.kind is Kind.FLOAT:
        ranks = float_ranks(ranks.astype(np.float64))
    elif source.kind is Kind.FLOAT and to.kind is Kind.INTEGER:
        numbers = rank_floats(ranks)
        with np.errstate(invalid="ignore"):
            whole = numbers.astype(np.int64)
        fits = whole.astype(np.float64) == numbers
        ranks = whole
    if to.grows:
        return to.words(ranks), fits
    assert not isinstance(to, CodedDomain | TextDomain)
    found = [to.find(int(rank)) for rank in ranks]
    fits &= np.array([word is not None for word in found], np.bool_)
    return np.array([word or 0 for word in found], np.uint32), fits
