"""Kernels over bit rows: a matrix of 64-bit words, a row for each class of the first column, a bit
for each class of the second. A class stands for one or several words (see columns/folded.py).
"""

from __future__ import annotations

from typing import Any

from numpy import int64 as i8, uint32 as u4, uint64 as u8

from caladan.columns.kernels import kernel
from caladan.columns.kernels.intrinsics import lowest, popcount

Array = Any

_NONE = u4(0xFFFFFFFF)
_ONE = u8(1)
_ZERO = u8(0)


@kernel("i8(u8[:, ::1], u4[::1], u4[::1])")
def set_bits(bits: Array, rows: Array, columns: Array) -> int:
    """Set the bits (rows[i], columns[i])."""
    for i in range(rows.size):
        y = columns[i]
        bits[rows[i], y >> u4(6)] |= _ONE << u8(y & u4(63))
    return rows.size


@kernel("i8(u8[:, ::1], u8[::1], i8, i8, u8)")
def set_key_bits(bits: Array, keys: Array, row_shift: int, shift: int, mask: int) -> int:
    """Set for each key the bit of one of its columns, in the row that its first columns say."""
    for i in range(keys.size):
        y = (keys[i] >> u8(shift)) & mask
        bits[keys[i] >> u8(row_shift), y >> u8(6)] |= _ONE << (y & u8(63))
    return keys.size


@kernel("i8(u8[:, ::1], u4[::1], u8[:, ::1], u4[::1])")
def unite_rows(out: Array, to: Array, rows: Array, numbers: Array) -> int:
    """Put row numbers[i] into row to[i] of another matrix; its words are those 64 at a time."""
    for i in range(to.size):
        a = to[i]
        b = numbers[i]
        for q in range(out.shape[1]):
            out[a, q] |= rows[b, q]
    return to.size


@kernel("i8(u8[:, ::1], u8[::1], u8[::1], u8[::1])")
def keep_unknown(bits: Array, bases: Array, known: Array, refused: Array) -> Any:
    """How many bits are neither in a bitmap of keys nor in another, which may be empty.

    Row r has the bits of the keys from bases[r] on. Leaves the others out of it.
    """
    count = _ZERO
    for r in range(bases.size):
        at = bases[r] >> u8(6)
        for q in range(bits.shape[1]):
            word = bits[r, q] & ~known[at + u8(q)]
            if refused.size:
                word &= ~refused[at + u8(q)]
            bits[r, q] = word
            count += popcount(word)
    return i8(count)


@kernel("i8(u8[:, ::1], u8[::1], u8[::1])")
def list_rows(bits: Array, bases: Array, out: Array) -> int:
    """The keys of all bits: those of row r are from bases[r] on."""
    w = 0
    for r in range(bases.size):
        for q in range(bits.shape[1]):
            word = bits[r, q]
            while word != _ZERO:
                out[w] = bases[r] | (u8(q) << u8(6)) | lowest(word)
                w += 1
                word &= word - _ONE
    return w


@kernel("i8(u8[:, ::1], u8[:, ::1], i8[::1])")
def weigh_bits(bits: Array, weights: Array, out: Array) -> int:
    """For each row the sum of its columns' weights, at the speed of counting bits.

    Weights come in binary: weights[j] has the columns whose weight has bit j. So a row's sum is
    the sum over j of 2^j times the bits it shares with weights[j].
    """
    for r in range(bits.shape[0]):
        total = _ZERO
        for j in range(weights.shape[0]):
            shared = _ZERO
            for q in range(bits.shape[1]):
                shared += popcount(bits[r, q] & weights[j, q])
            total += shared << u8(j)
        out[r] = i8(total)
    return bits.shape[0]


@kernel("i8(u8[:, ::1], u4[::1], u4[::1], u4[::1], u4[::1], b1[::1])")
def contains_bits(
    bits: Array, row_of: Array, column_of: Array, first: Array, second: Array, out: Array
) -> int:
    """Which of the facts (first[i], second[i]) are there; `row_of` and `column_of` give classes."""
    for i in range(first.size):
        out[i] = False
        x = first[i]
        y = second[i]
        if x < row_of.size and y < column_of.size:
            r = row_of[x]
            c = column_of[y]
            if r != _NONE and c != _NONE:
                word = bits[r, c >> u4(6)]
                out[i] = (word >> u8(c & u4(63))) & _ONE != _ZERO
    return first.size


@kernel("i8(u8[:, ::1], u4[::1], u4[::1], i8[::1], u4[::1], i8[::1], u4[::1], u4[::1])")
def emit_bits(
    bits: Array,
    words: Array,
    row_of: Array,
    column_bounds: Array,
    members: Array,
    cursor: Array,
    first: Array,
    second: Array,
) -> int:
    """List facts until the output is full; goes on at `cursor` and leaves it behind the last.

    The cursor is (position in `words`, column class, position in the class). Returns how many.
    """
    i = cursor[0]
    c = cursor[1]
    m = cursor[2]
    w = 0
    width = bits.shape[1]
    while i < words.size:
        x = words[i]
        row = bits[row_of[x]]
        q = c >> 6
        # Bits below the cursor have been listed.
        word = (row[q] >> u8(c & 63)) << u8(c & 63) if q < width else _ZERO
        while q < width:
            while word != _ZERO:
                c = (q << 6) | i8(lowest(word))
                p = column_bounds[c] + m
                end = column_bounds[c + 1]
                while p < end and w < first.size:
                    first[w] = x
                    second[w] = members[p]
                    w += 1
                    p += 1
                if p < end:
                    cursor[0] = i
                    cursor[1] = c
                    cursor[2] = p - column_bounds[c]
                    return w
                m = 0
                word &= word - _ONE
            q += 1
            if q < width:
                word = row[q]
        c = 0
        i += 1
    cursor[0] = i
    cursor[1] = 0
    cursor[2] = 0
    return w


@kernel("i8(u8[:, ::1], i8, b1[::1])")
def column_bits(bits: Array, column: int, out: Array) -> int:
    """Which rows have the bit of a column; returns how many."""
    q = column >> 6
    shift = u8(column & 63)
    count = 0
    for r in range(bits.shape[0]):
        out[r] = (bits[r, q] >> shift) & _ONE != _ZERO
        count += out[r]
    return count


@kernel("i8(u8[:, ::1], u8[::1], i8[::1], i8[::1], i8[::1])")
def weigh_columns_bits(bits: Array, mask: Array, ahead: Array, weights: Array, out: Array) -> int:
    """For each wanted class, set in `mask`, the summed weight of the rows that have it.

    ahead[c] is how many wanted classes are before c.
    """
    for r in range(bits.shape[0]):
        for q in range(mask.size):
            word = bits[r, q] & mask[q]
            while word != _ZERO:
                out[ahead[(q << 6) | i8(lowest(word))]] += weights[r]
                word &= word - _ONE
    return out.size


@kernel("i8(u8[:, ::1], u8[::1], i8[::1], i8[::1], u4[::1])")
def list_columns_bits(bits: Array, mask: Array, ahead: Array, cursor: Array, out: Array) -> int:
    """The rows of each wanted class, from out[cursor[k]] on; leaves the cursors behind them."""
    done = 0
    for r in range(bits.shape[0]):
        for q in range(mask.size):
            word = bits[r, q] & mask[q]
            while word != _ZERO:
                k = ahead[(q << 6) | i8(lowest(word))]
                out[cursor[k]] = r
                cursor[k] += 1
                done += 1
                word &= word - _ONE
    return done


@kernel("i8(u8[:, ::1], i8[::1], i8[::1])")
def best_bits(bits: Array, values: Array, out: Array) -> int:
    """For each row the least of its classes' values; rows without classes stay as they are."""
    for r in range(bits.shape[0]):
        least = out[r]
        for q in range(bits.shape[1]):
            word = bits[r, q]
            while word != _ZERO:
                least = min(least, values[(q << 6) | i8(lowest(word))])
                word &= word - _ONE
        out[r] = least
    return bits.shape[0]


@kernel("i8(u8[:, ::1], u4[::1], u4[::1], u8[:, ::1])")
def fill_bits(bits: Array, rows: Array, places: Array, out: Array) -> int:
    """Set bit places[i] of every class of row rows[i]."""
    for i in range(rows.size):
        at = places[i] >> u4(6)
        bit = _ONE << u8(places[i] & u4(63))
        for q in range(bits.shape[1]):
            word = bits[rows[i], q]
            while word != _ZERO:
                out[(q << 6) | i8(lowest(word)), at] |= bit
                word &= word - _ONE
    return rows.size


@kernel("i8(u8[:, ::1], u8[::1], i8[::1], i8[::1], u4[::1], u8[:, ::1])")
def fill_columns_bits(
    bits: Array, mask: Array, ahead: Array, place_bounds: Array, places: Array, out: Array
) -> int:
    """Set the bits of wanted classes, those in `mask`, in every row that has them.

    ahead[c] is how many wanted classes are before c; those of the k-th are the places from
    place_bounds[k] on.
    """
    for r in range(bits.shape[0]):
        for q in range(mask.size):
            word = bits[r, q] & mask[q]
            while word != _ZERO:
                k = ahead[(q << 6) | i8(lowest(word))]
                for j in range(place_bounds[k], place_bounds[k + 1]):
                    out[r, places[j] >> u4(6)] |= _ONE << u8(places[j] & u4(63))
                word &= word - _ONE
    return bits.shape[0]
