"""Thresholds: from where on another way of doing the same thing is the quicker one.

None of them changes an answer, only the way to it. They stand here, and not with the code they
steer, so that tests can set them all: a path that is meant for millions of facts is gone through
with ten, and any two of them meet (tests/strategies/random_thresholds.py draws them).

    thresholds.now.room                     what holds at the moment; read it where it is needed
    with thresholds.using(room=3): …        others for a while, in this process
    CALADAN_THRESHOLDS="room=3 compact=4"   others for a process, and for the tasks it starts

The defaults were measured; bench/ is how to measure them again.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

VARIABLE: Final = "CALADAN_THRESHOLDS"


def _int(default: int, least: int = 0, most: int | None = None) -> Any:
    """A whole number, with the least and the most that make sense."""
    return field(default=default, metadata={"least": least, "most": most})


def _float(default: float) -> Any:
    """A price: only its proportion to other prices matters."""
    return field(default=default, metadata={"least": 0.0, "most": None})


@dataclass(frozen=True, slots=True)
class Thresholds:
    """All of them, by the part of the package that reads them."""

    # ── columns: kernels, domains, relations ─────────────────────────────────────────────────────
    worth_native: int = _int(5_000)  # array elements that kernels go through as plain Python
    worth_numba: int = _int(50_000)  # and where nothing was compiled before
    worth_loading: int = _int(1 << 16)  # bytes of a file for which kernels are loaded meanwhile
    roomy: int = _int(4, most=64)  # words that offsets may waste for each value
    dense: int = _int(1 << 16, most=1 << 20)  # values so close together are offsets anyway
    key_bits: int = _int(64, most=64)  # of a fact; wider ones are kept by rows
    block: int = _int(1 << 18, least=1, most=1 << 22)  # rows: columns of it stay in cache
    # ── columns: runs ────────────────────────────────────────────────────────────────────────────
    run_ratio: int = _int(2, least=1, most=64)  # a run has so many times the keys of the next one
    tail: int = _int(256)  # keys of a run that takes in every new one, whatever their sizes
    recompute: int = _int(4, least=1)  # one fact of so many lost: a clique is evaluated anew
    recompute_least: int = _int(1 << 12)  # facts that may be lost in any case
    purge: int = _int(4, least=1)  # a relation is rewritten once one fact of so many is deleted
    gallop: int = _int(8, least=1)  # times as large is a run that is searched, not walked through
    filter_keys: int = _int(256, least=1)  # of a run; fewer are found as quickly without a filter
    filter_lookups: int = _int(4)  # a filter pays from a lookup for so many keys on
    filter_bits: int = _int(16, least=1, most=64)  # of a filter for each key
    exact_bits: int = _int(24, most=24)  # of a lookup key for which a filter has a bit for each
    cached_bits: int = _int(22)  # of a fact: a bit for every possible one stays in cache
    bounds_keys: int = _int(64, least=1)  # of a run; fewer are found as quickly without bounds
    bounds_sparse: int = _int(8, most=64)  # leading words that bounds have for a key
    accumulate: int = _int(1 << 10)  # searches that telling keys apart must save; 0: never
    radix_keys: int = _int(1 << 11, least=1)  # that are sorted by their digits
    radix_narrow: int = _int(1 << 18)  # from which on digits have few bits
    radix_most: int = _int(1 << 24)  # more would take too much memory besides
    sort_in_threads: int = _int(1 << 19, least=2)  # keys
    spill_keys: int = _int(1 << 16, least=1)  # of a run that may go to disk
    folded_block: int = _int(1 << 22, least=1)  # facts of a folded relation listed at a time
    projection: int = _int(1 << 16, least=1)  # rows of a table whose unread columns are left out
    # ── columns: what is new ─────────────────────────────────────────────────────────────────────
    compact: int = _int(1 << 23)  # pending keys that are made distinct before more are taken
    bitmap_bits: int = _int(31, most=31)  # of a key, for which there is a bit for each: 256 MB
    seen_again: int = _int(1 << 18)  # facts derived again before a set of all facts is kept
    seen_price: int = _int(1)  # times its cost that such a set must have saved
    # ── search ───────────────────────────────────────────────────────────────────────────────────
    search_width: int = _int(1 << 17, least=1)  # bindings of a batch once the ramp is done
    search_ramp: int = _int(8, least=2)  # times as wide is the next batch
    search_budget: int = _int(1 << 22, least=1)  # proposals between two looks around
    search_sample: int = _int(1 << 16)  # values that a grade may look at before it must pay
    search_price: int = _int(4)  # values looked at for estimates, for each that is proposed
    search_counted: int = _int(1 << 20)  # longer lists are not walked to be counted
    # ── embedded: plans and batches ──────────────────────────────────────────────────────────────
    worth_sampling: int = _int(256)  # facts a rule starts from; with fewer, atoms are not tried
    sample: int = _int(64, least=1)  # solutions that are tried
    replan: int = _int(64)  # facts more, or fewer, that never make a plan be thought over
    orders: int = _int(24)  # of the atoms of a body that are gone through before a run
    foreseen: int = _int(1 << 20)  # solutions of an exit rule that explain goes through
    selective: int = _int(2)  # values for each fact of an atom that makes a rule go in two parts
    room: int = _int(1 << 18, least=1)  # solutions of a batch
    narrowing: int = _int(16)  # facts found for a solution, from which on comparisons cut them
    narrow: int = _int(4)  # times fewer facts are left of a lookup that comparisons cut much
    semijoin: int = _int(4, least=1)  # facts that a semijoin tries for a row at first
    rollup_start: int = _int(4, least=1)  # times the facts of another first atom
    rollup_products: int = _int(16, least=1)  # that an amount may fall into
    grouping: int = _int(1 << 12)  # solutions of a batch that may be grouped
    repeats: int = _int(128)  # solutions of a batch that are told apart before they are joined
    repeats_pause: int = _int(15)  # batches left as they are where solutions differed, at most
    grouping_pays: int = _int(3)  # solutions of a group, on average
    cross_first: int = _int(
        4
    )  # facts that a last lookup finds for a group, which is crossed before
    crossing: int = _int(1 << 18, least=1)  # solutions of groups that are crossed at a time
    batch_in_threads: int = _int(1 << 16, least=1)  # solutions, or those a batch will lead to
    batch_alone: int = _int(1 << 11, least=1)  # solutions of a batch that stays with one thread
    # Bit rows of a product (fixpoint/products.py), in solutions that cost the same one by one.
    product_pair: float = _float(4.0)  # two rows, however long
    product_word: float = _float(0.1)  # 64 bits of a row
    product_rows: int = _int(1 << 10)  # solutions that may be a product although facts are tested
    product_bytes: int = _int(1 << 27, least=1, most=1 << 28)  # of rows that are held at a time
    dense_numbers: int = _int(16)  # a flag for each number where so many times fewer are distinct
    # ── embedded: small rounds ───────────────────────────────────────────────────────────────────
    small: int = _int(1000, least=1, most=1 << 14)  # facts of a delta for the tiny-delta machine
    small_rounds: int = _int(8)  # in a row before the machine is worth its start
    small_rounds_cold: int = _int(400)  # rules in rounds more, where numba would have to be loaded
    machine_bits: int = _int(26, most=32)  # of a key, where the machine has a bit for every one
    first_tail: int = _int(13, most=16)  # bits of the number of facts that the machine first holds
    largest_tail: int = _int(20, most=20)  # and at last
    groups_a_round: int = _int(2000, least=1)  # that can be packed in the time of a round
    packed_groups: int = _int(1 << 21)  # groups that are worth packing for some small rounds
    # ── spark: meshed ────────────────────────────────────────────────────────────────────────────
    mesh_small_rounds: int = _int(32, least=1)  # in a row before one task is to go on alone
    mesh_facts_a_round: int = _int(4096, least=1)  # that can be moved in the time of a round
    mesh_gathered: int = _int(1 << 25)  # facts that one task can have
    mesh_spread: int = _int(1 << 17)  # new facts from which one task is to share them out again
    # ── embedded: shapes ─────────────────────────────────────────────────────────────────────────
    shape: int = _int(1000)  # facts, below which rounds are done before a shape has started
    shape_spread: int = _int(1 << 20, most=1 << 24)  # words that a shape may leave unused
    shape_part: int = _int(64, least=1)  # rows, or words of them, that are worth a thread
    shape_join: int = _int(1 << 20)  # pairs more than a step's facts that it may be joined to
    shape_tests: int = _int(1 << 32, least=1)  # pairs of a source and a node that are tested
    shape_block: int = _int(1 << 22, least=1)  # of them at a time
    shape_rounds: int = _int(4096)  # in which the tuples of a shape are gone through
    shape_matrix: int = _int(
        8
    )  # words for a pair up to which a matrix of bits may be all but empty
    shape_empty: int = _int(8, least=1)  # words of it gone through while rounds find a fact
    folded: int = _int(1 << 16)  # facts of a layout, below which rules on top list them
    listed: int = _int(1 << 20)  # and below which joins with it do
    shape_split: int = _int(64, least=1)  # bytes of a layout gone through while a fact is listed
    shape_kinds: int = _int(16)  # groups of sources that differ in the rules that apply to them
    closure_samples: int = _int(64, least=1, most=1 << 12)  # rows that are searched for an estimate
    closure_patience: int = _int(8)  # times its estimate that a way may take
    # Nanoseconds: a word of a bit row; a range merged; a node or edge searched; a byte taken from
    # the system, which also stands for what memory is worth. Rough: on six graphs and a busy
    # machine they came out as 0.26 to 0.53, 3 to 22, 2 to 8, and 0.1 to 3.5.
    closure_word: float = _float(0.35)
    closure_range: float = _float(8.0)
    closure_edge: float = _float(4.0)
    closure_byte: float = _float(1.0)
    # ── ticks ────────────────────────────────────────────────────────────────────────────────────
    bulk: int = _int(250_000)  # facts that a clique derives in a tick before columns take over
    bulk_share: int = _int(8)  # and that, so many times, are all it holds
    # ── embedded: memory ─────────────────────────────────────────────────────────────────────────
    memory_looks: int = _int(32)  # at all relations, while facts fill the budget once
    kept_share: int = _int(4)  # of the memory that a run may have, one part for what others left
    spill_share: int = _int(100, most=100)  # percent of the budget beyond which runs go to disk

    @staticmethod
    def parse(text: str) -> Thresholds:
        """Thresholds from `name=value` pairs, the others as they are.

        >>> Thresholds.parse("room=3 closure_byte=0.5").closure_byte
        0.5
        """
        kinds = {each.name: type(each.default) for each in fields(Thresholds)}
        changes: dict[str, Any] = {}
        for pair in text.replace(",", " ").split():
            name, _, value = pair.partition("=")
            if name not in kinds:
                raise ValueError(f"{VARIABLE}: there is no threshold {name!r}")
            try:
                changes[name] = kinds[name](value)
            except ValueError:
                message = f"{VARIABLE}: {name} is a number, not {value!r}"
                raise ValueError(message) from None
        return replace(Thresholds(), **changes)

    def changes(self) -> dict[str, Any]:
        """Those that are not the defaults, by name."""
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if getattr(self, each.name) != each.default
        }


now = Thresholds.parse(os.environ.get(VARIABLE, ""))


@contextmanager
def override(chosen: Thresholds | None = None, /, **changes: Any) -> Generator[None]:
    """Other thresholds for a while: these, with these changes."""
    # One process, one set of thresholds: threads share it.
    global now  # noqa: PLW0603
    before = now
    now = replace(now if chosen is None else chosen, **changes)
    try:
        yield
    finally:
        now = before
