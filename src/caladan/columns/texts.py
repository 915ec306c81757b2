"""Texts that rules compute: words in order of appearance, in a domain that grows.

As long as they come in large batches, as whole columns do, they stay Arrow's, and telling them
apart is Arrow's work. From the first small batch on they are in a list and a dictionary of Python,
which find a few among many sooner; so it goes from round to round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from caladan.columns.layout import Words
from caladan.columns.ranks import CODED, Ranks, arrow_of, numpy_of
from caladan.data.schema import array_of, compute as pc
from caladan.program import thresholds
from caladan.program.kinds import Kind

_MOST: Final = 1 << 30  # bytes of texts in one array: its offsets have 32 bits


_ENTRY: Final = 128
"""Bytes that a value takes in a list and a dictionary of Python, beside its characters."""


class TextDomain:
    """Texts in order of appearance, for those that rules compute. Ranks only tell them apart.

    Where a domain stays open, decimals and binary data are kept so too.
    """

    grows = True

    def __init__(self, texts: Sequence[Any] | pa.Array = (), kind: Kind = Kind.STRING) -> None:
        self.kind = kind
        self._all: pa.Array | None = texts if isinstance(texts, pa.Array) else None
        self._texts: list[Any] = [] if isinstance(texts, pa.Array) else list(texts)
        self._known = {text: word for word, text in enumerate(self._texts)}
        self._taken = 0  # bytes of the list, without what it began with
        self._has_small = False
        self._found: dict[Any, int | None] = {}  # in the array: rules ask for the same constants

    @property
    def texts(self) -> list[Any]:
        """All of them, by word."""
        if self._all is not None and len(self._texts) < len(self._all):
            self._texts = self._all.to_pylist()
            self._known = {text: word for word, text in enumerate(self._texts)}
        return self._texts

    def fork(self) -> None:
        """Have values of one's own from now on."""
        self._texts, self._known = list(self._texts), dict(self._known)

    @property
    def nbytes(self) -> int:
        """What the texts take that came since, roughly."""
        return self._taken + (0 if self._all is None else self._all.nbytes)

    @property
    def size(self) -> int:
        """All words are below."""
        return max(len(self._texts if self._all is None else self._all), 1)

    def take(self, texts: Sequence[Any]) -> Words:
        """The words of texts; those that are new get one."""
        every = self.texts
        known = self._known
        words = np.empty(len(texts), np.uint32)
        for i, text in enumerate(texts):
            word = known.setdefault(text, len(every))
            if word == len(every):
                every.append(text)
                self._taken += _ENTRY + (len(text) if isinstance(text, str | bytes) else _ENTRY)
            words[i] = word
        if self._all is not None and len(every) > len(self._all):
            self._taken += self._all.nbytes + _ENTRY * len(self._all)
            self._all = None
        return words

    def take_column(self, texts: pa.Array) -> Words:
        """As `take`, for a whole column as Arrow has it."""
        texts = texts.cast(CODED[self.kind])
        known = 0 if self._all is None else len(self._all)
        is_small = len(texts) < thresholds.now.grouping or 16 * len(texts) < known
        # One small batch, as sums at the end are, does not make a large array a list.
        is_list = self._has_small or known < thresholds.now.grouping
        if (is_small and is_list) or (self._all is None and self._texts):
            return self.take(texts.to_pylist())
        self._has_small = is_small
        coded: Any = texts.dictionary_encode()
        every, distinct = self._all, coded.dictionary
        if distinct.nbytes + (0 if every is None else every.nbytes) > _MOST:
            return self.take(texts.to_pylist())
        words: Words = np.arange(len(distinct), dtype=np.uint32)
        if every is not None:
            found = numpy_of(pc.fill_null(pc.index_in(distinct, value_set=every), -1))
            new = found < 0
            words = np.where(new, known + np.cumsum(new) - 1, found).astype(np.uint32)
            places = arrow_of(np.flatnonzero(new))
            distinct = pa.concat_arrays([every, distinct.take(places)])
        self._all, self._texts, self._found = distinct, [], {}
        return words[numpy_of(coded.indices)]

    def words(self, ranks: Ranks) -> Words:
        """Ranks are words."""
        return ranks.astype(np.uint32)

    def ranks(self, words: Words) -> Ranks:
        """Words are ranks."""
        return words.astype(np.int64)

    def find(self, text: Any) -> int | None:
        """The word of a text, None if it has none."""
        if self._all is not None and not self._texts:
            if text not in self._found:
                at = int(pc.index(self._all, array_of([text], self._all.type)[0]).as_py())
                self._found[text] = None if at < 0 else at
            return self._found[text]
        return self._known.get(text)

    def order(self, words: Words) -> Ranks:
        """The places of some texts among each other, for words that differ."""
        texts = self._values(words)
        places: Ranks = np.empty(len(texts), np.int64)
        places[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
        return places

    def ordered(self, words: Words | Ranks) -> Ranks:
        """Numbers in the order of texts, whose words may repeat."""
        different, of = np.unique(words.astype(np.uint32), return_inverse=True)
        return self.order(different)[of]

    def arrow(self, words: Words, type: pa.DataType) -> pa.Array:
        """The texts of words as an Arrow array."""
        if self._all is not None:
            return self._all.take(arrow_of(words)).cast(type)
        return pa.array(self._values(words), CODED[self.kind]).cast(type)

    def _values(self, words: Words) -> list[Any]:
        if self._all is not None:
            return self._all.take(arrow_of(words)).to_pylist()
        return [self._texts[word] for word in words.tolist()]
