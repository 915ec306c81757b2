"""Instances: a module that runs. `Bloom` is what programs extend.

    kvs = KVS()
    kvs.insert("put", [(1, "spice", 10)])
    kvs.tick()
    kvs["state"].rows()

Ticks are driven by hand (`tick`), or by a thread of the instance (`run` … `stop`) that ticks when
facts are handed in, when the last tick left something to do, or when a timer is due. Facts can be
handed in from any thread; callbacks run on the thread that ticks, after the tick.

If a tick fails on that thread, the thread prints the failure on stderr and ends. The next call of
any method raises the failure, and so does every later attempt to hand in facts or to wait, until
`stop()` or `run()`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from caladan.language.bloom.module import Module, reserve, unknown
from caladan.language.bloom.schema import CollectionKind, Schema
from caladan.language.bloom.text import module
from caladan.language.bloom.values import reveal
from caladan.program.diagnostics import CaladanError, error
from caladan.ticks.engine import Edits, Repair, TickEngine
from caladan.ticks.extent import Fact, TickChange
from caladan.ticks.network import Contents, Network, TickStats, Timer, local_network
from caladan.ticks.saving import SavedState, read, write
from caladan.ticks.wiring import TickProgram, wire

Callback = Callable[[set[tuple[Any, ...]]], None]
Filter = Callable[[list[Any]], tuple[Iterable[Any], Iterable[Any]]]


class Bloom(Module):
    """A program with collections and rules, and its state.

    `safe` starts everything from scratch in every tick, as does CALADAN_SAFE=1; `repair="never"`
    erases and rescans as the sets say even where a repair is less work. `clock` tells the time.
    `address` is where channels of others find this instance, on `network`; rules know it too.
    """

    def __init__(
        self,
        *,
        safe: bool | None = None,
        repair: Repair = "auto",
        address: str | None = None,
        network: Network | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ticks = 0
        self._network = network or local_network()
        super().__init__(self._network.free(address))
        if repair not in ("auto", "never"):
            raise error("C050", f"repair is `auto` or `never`, not {repair!r}")
        if safe is None:
            safe = os.environ.get("CALADAN_SAFE", "") not in ("", "0")
        self._wired = wire(self._recorder)
        self._engine = TickEngine(self._wired, safe=safe, repair=repair)
        self._clock = clock
        self._inbox: dict[str, Edits] = {}
        self._filters: dict[str, Filter] = {}
        self._held: dict[str, list[Fact]] = {}
        self._callbacks: dict[str, list[Callback]] = {}
        self._mutex = threading.RLock()  # held while a tick runs, and while results are read
        self._news = threading.Condition()  # the inbox, and whoever waits for ticks
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._is_halted = False
        self._shutdown: list[Callable[[], object]] = []
        self._failure: BaseException | None = None
        self._is_raised = False
        """Whether a caller has seen the failure: what the program holds can then be read."""
        self._handed: dict[str, set[str]] = {}
        """The collections that calls have changed, and how: insert, delete, upsert."""
        self._stats = TickStats()
        self._timers = [
            Timer(name, schema.period, clock)
            for name, schema in self._user_schemas()
            if schema.kind is CollectionKind.PERIODIC and schema.period is not None
        ]
        self._sending = [
            name
            for name, schema in self._user_schemas()
            if schema.kind.sends and self._wired.due(name, "async") is not None
        ]
        self._network.join(self, self.address)
        self._recorder.contents = self.__getitem__
        for name, when, (row,) in self._recorder.bootstrap:
            fact = self._engine.extents[name].fact(row)
            if when == "async":
                self._send(name, fact)
            else:
                self._put(name, Edits([fact]))

    def inherit(self, other: Bloom) -> None:
        """Go on where another instance is: its tables, its ticks, and what waits for the next."""
        with other._mutex, other._news:
            self._inbox = self._engine.inherit(other._engine)
            for name, handed in other._inbox.items():
                self._inbox.setdefault(name, Edits()).add(handed)
            self._ticks, self._stats = other._ticks, other._stats

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write tables, lattices, the number of ticks and what waits for the next into a file."""
        self._raise_failure()
        with self._mutex, self._news:
            facts: dict[tuple[str, str], list[Fact]] = {}
            for name, extent in self._engine.extents.items():
                if extent.persists:
                    facts[name, "holds"] = list(extent.base.values())
            waiting = self._engine.waiting()
            for name, edits in self._inbox.items():
                if name in self._wired.schemas:
                    waiting.setdefault(name, Edits()).add(edits)
            for name, held in self._held.items():
                waiting.setdefault(name, Edits()).insert.extend(held)
            for name, edits in waiting.items():
                for purpose in ("insert", "delete", "upsert"):
                    if given := getattr(edits, purpose):
                        facts[name, purpose] = given
            state = SavedState(self._ticks, facts)
        write(path, state, self._wired.schemas)

    @classmethod
    def restore(cls, path: str | os.PathLike[str], **options: Any) -> Self:
        """An instance that goes on at the tick after which another was saved."""
        made = cls(**options)
        state = read(path, made._wired.schemas)
        made._inbox = {}
        for (name, purpose), facts in state.facts.items():
            if purpose == "holds":
                made._engine.hold(name, facts)
            elif purpose in ("insert", "delete", "upsert"):
                getattr(made._inbox.setdefault(name, Edits()), purpose).extend(facts)
        made._ticks = made._stats.ticks = state.ticks
        return made

    # ── Facts in ─────────────────────────────────────────────────────────────────────────────────

    def insert(self, name: str, rows: Iterable[Any]) -> None:
        """Hand facts in; they are there in the next tick. For a lattice, values to merge."""
        self._hand_in(name, Edits(insert=self._facts(name, rows, "insert")), "insert")

    def delete(self, name: str, rows: Iterable[Any]) -> None:
        """Delete facts of a table as the next tick starts."""
        self._hand_in(name, Edits(delete=self._facts(name, rows, "delete")), "delete")

    def upsert(self, name: str, rows: Iterable[Any]) -> None:
        """Put facts of a table in the place of those with the same key, as the next tick starts."""
        self._hand_in(name, Edits(upsert=self._facts(name, rows, "upsert")), "upsert")

    def _hand_in(self, name: str, edits: Edits, how: str) -> None:
        self._raise_failure()
        self._handed.setdefault(name, set()).add(how)
        self._put(name, edits)

    def _put(self, name: str, edits: Edits) -> None:
        """Hand something in, for the next tick; nothing at all, if a tick is all that is wanted."""
        with self._news:
            if (waiting := self._inbox.setdefault(name, edits)) is not edits:
                waiting.add(edits)
            self._news.notify_all()

    def _facts(self, name: str, rows: Iterable[Any], what: str) -> list[Fact]:
        schema = self._schema(name)
        if what != "insert" and schema.kind is not CollectionKind.TABLE:
            raise error("C071", f"`{name}` is a {schema.kind.value}; `{what}` is for tables")
        if schema.kind is CollectionKind.OUTPUT:
            raise error("C071", f"`{name}` is an output, which rules derive")
        if schema.kind is CollectionKind.CLOCK:
            raise error("C071", "the clock cannot be set")
        if schema.kind is CollectionKind.LATTICE and not isinstance(rows, list | tuple):
            rows = [rows]
        extent = self._engine.extents[name]
        return [extent.fact(row) for row in rows]

    # ── Ticks ────────────────────────────────────────────────────────────────────────────────────

    def tick(self, n: int = 1) -> Self:
        """Go through `n` ticks."""
        self._raise_failure()
        for _ in range(n):
            with self._mutex:
                self._tick()
            if self._is_halted:
                self.stop()
                break
        return self

    def _tick(self) -> None:
        now = self._clock()
        with self._news:
            handed, self._inbox = self._inbox, {}
        for timer in self._timers:
            if (fact := timer.due(now)) is not None:
                handed.setdefault(timer.name, Edits()).insert.append(fact)
        for name, keep in self._filters.items():
            self._filter(name, keep, handed)
        started = time.perf_counter()
        engine = self._engine
        engine.tick(handed, (self._ticks, now))
        self._ticks += 1
        self._stats.ticked(engine, time.perf_counter() - started)
        for name in self._sending:
            for fact in list(engine.sent(name)):
                self._send(name, fact)
        for name, callbacks in list(self._callbacks.items()):
            if callbacks and (contents := engine.extents[name].contents):
                rows = {reveal(fact) for fact in contents.values()}
                for each in list(callbacks):
                    each(rows)
        halting = engine.extents.get("halt")
        with self._news:
            self._is_halted = halting is not None and bool(halting.contents)
            self._news.notify_all()

    def _send(self, name: str, fact: Fact) -> None:
        schema = self._wired.schemas[name]
        if schema.kind is CollectionKind.STDIO:
            sys.stdout.write(f"{fact[0]}\n")
        elif schema.kind is CollectionKind.LOOPBACK or schema.address is None:
            self.deliver(name, fact)
        else:
            self._network.send(fact[schema.address], name, fact)

    def deliver(self, name: str, fact: Fact) -> None:
        """A fact that was sent has arrived; it is there in the next tick."""
        extent = self._engine.extents.get(name)
        if extent is not None and extent.schema.kind.sends:  # else nothing that facts are sent to
            self._put(name, Edits([extent.fact(fact)]))

    def _filter(self, name: str, keep: Filter, handed: dict[str, Edits]) -> None:
        arrived = self._held.pop(name, [])
        if name in handed:
            arrived += handed.pop(name).insert
        if not arrived:
            return
        now, later = map(list, keep(list(arrived)))
        if now:
            handed[name] = Edits(now)
        if later:
            self._held[name] = later

    def filter(self, name: str, split: Filter) -> None:
        """Let a function split what arrives at a channel: (deliver now, keep for later)."""
        self._schema(name)
        self._filters[name] = split

    # ── In the background ────────────────────────────────────────────────────────────────────────

    def run(self) -> Self:
        """Tick on a thread of its own whenever there is something to do."""
        self._start()
        self._thread = threading.Thread(target=self._loop, name="bloom", daemon=True)
        self._thread.start()
        return self

    def run_fg(self) -> Self:
        """Tick on the caller's thread until another stops it, a rule halts it, or Ctrl-C."""
        self._start()
        self._thread = threading.current_thread()
        try:
            self._loop()
        except KeyboardInterrupt:
            pass
        finally:
            self.stop()
        return self

    def _start(self) -> None:
        if self._thread is not None and self._failure is None:
            raise error("C050", "the instance is already running")
        self._forget_failure()
        self._is_stopping = self._is_halted = False
        for name, schema in self._user_schemas():
            if schema.kind is CollectionKind.STDIO and self._engine.is_read(name):
                threading.Thread(target=self._read, args=(name,), daemon=True).start()

    def _read(self, name: str) -> None:
        """Lines of standard input as facts, until it ends."""
        try:
            for line in sys.stdin:
                self.deliver(name, (line.rstrip("\n"),))
        except Exception as problem:  # a line that is no text
            self._fail(problem)

    def _loop(self) -> None:
        try:
            while True:
                with self._news:
                    while not (self._is_stopping or self._has_work()):
                        now = self._clock()
                        self._news.wait(min((t.wait(now) for t in self._timers), default=None))
                    if self._is_stopping:
                        return
                with self._mutex:
                    self._tick()
                if self._is_halted:
                    self._leave()
                    return
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            self._fail(problem)

    def _fail(self, problem: BaseException) -> None:
        """End a run on a thread of its own: print the failure, and keep it for the next call."""
        shown = [str(problem)] if isinstance(problem, CaladanError) else []
        shown = shown or traceback.format_exception(problem)
        sys.stderr.write(f"{self!r} stopped:\n{''.join(shown).rstrip()}\n")
        sys.stderr.flush()
        with self._news:
            self._failure, self._is_raised = problem, False
            self._is_stopping = True
            self._news.notify_all()

    def _has_work(self) -> bool:
        now = self._clock()
        return (
            bool(self._inbox)
            or self._ticks == 0
            or self._engine.has_work
            or any(timer.is_due(now) for timer in self._timers)
        )

    def pause(self) -> None:
        """End the thread after the tick that is running; `run()` goes on, and messages wait."""
        with self._news:
            self._is_stopping = True
            self._news.notify_all()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._forget_failure()

    def stop(self) -> None:
        """End the thread after the tick that is running, and leave the network."""
        try:
            self.pause()
        finally:
            self._leave()

    def _leave(self) -> None:
        """Leave the network, end calls that wait, and call what waits for the end."""
        with self._news:
            self._is_stopping = True
            if self._thread is threading.current_thread():
                self._thread = None
            self._news.notify_all()
        self._network.leave(self.address)
        waiting, self._shutdown = self._shutdown, []
        for each in waiting:
            each()

    def on_shutdown(self, callback: Callable[[], object]) -> None:
        """Call a function once, when the instance is stopped or halted."""
        self._shutdown.append(callback)

    def _raise_failure(self, *, is_again: bool = True) -> None:
        """Raise what ended the run on a thread: always, or only if no call has raised it yet."""
        failure = self._failure
        if failure is not None and (is_again or not self._is_raised):
            self._is_raised = True
            raise failure

    def _forget_failure(self) -> None:
        """Raise a failure that no call has raised yet, and go on without it."""
        failure, self._failure = self._failure, None
        if failure is not None and not self._is_raised:
            raise failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def on(self, name: str, callback: Callback) -> None:
        """Call a function after each tick in which a collection has facts, with these."""
        self._raise_failure()
        self._schema(name)
        with self._mutex:
            self._callbacks.setdefault(name, []).append(callback)

    def sync_do(self, action: Callable[[], Any] | None = None, timeout: float | None = 60.0) -> Any:
        """Do something between two ticks, and wait for the tick after it."""
        self._raise_failure()
        with self._mutex:
            result = None if action is None else action()
            if self._thread is None:
                self._tick()
                return result
            seen = self._ticks
        with self._news:
            self._put("", Edits())
            self._wait(lambda: self._ticks > seen, timeout, "a tick")
        return result

    def call(
        self,
        name: str,
        rows: Iterable[Any],
        answer: str,
        timeout: float | None = 60.0,
        *,
        match: Callable[[tuple[Any, ...]], object] | None = None,
    ) -> set[tuple[Any, ...]]:
        """Hand facts in and wait for the tick in which a collection has an answer.

        Others may have asked too: `match` says which facts answer this call, if not all.
        """
        found: list[set[tuple[Any, ...]]] = []

        def answered(facts: set[tuple[Any, ...]]) -> None:
            if own := facts if match is None else {fact for fact in facts if match(fact)}:
                found.append(own)

        with self._mutex:  # no tick may end between the two
            self.on(answer, answered)
            self.insert(name, rows)
        try:
            if self._thread is None:
                self.tick()
                while not found and (self._engine.has_work or self._inbox):
                    self.tick()
            else:
                with self._news:
                    self._wait(lambda: bool(found), timeout, f"facts of `{answer}`")
        finally:
            with self._mutex:
                self._callbacks[answer].remove(answered)
        return found[0] if found else set()

    def _wait(self, is_done: Callable[[], bool], timeout: float | None, what: str) -> None:
        is_over = self._news.wait_for(lambda: is_done() or self._is_stopping, timeout)
        if is_done():
            return
        self._raise_failure()
        if is_over:
            raise error("C043", f"the instance was stopped before {what} came")
        raise error("C042", f"{what} did not come within {timeout} seconds")

    # ── Facts out ────────────────────────────────────────────────────────────────────────────────

    def __getitem__(self, name: str) -> Contents:
        """What a collection holds after the last tick, in any of the forms of a relation."""
        self._raise_failure(is_again=False)
        schema = self._schema(name)
        with self._mutex:
            facts = [reveal(f) for f in self._engine.extents[name].contents.values()]
        return Contents(schema, facts)

    def __contains__(self, name: object) -> bool:
        return name in self._wired.schemas

    def __iter__(self) -> Iterator[str]:
        """The names of the collections."""
        return iter(self.collections)

    def value(self, name: str) -> Any:
        """The value of a lattice after the last tick."""
        self._raise_failure(is_again=False)
        if self._schema(name).kind is not CollectionKind.LATTICE:
            raise error(
                "C050", f"`{name}` is not a lattice", help=f'its facts are instance["{name}"]'
            )
        extent = self._engine.extents[name]
        with self._mutex:
            return reveal((extent.contents or extent.base)[()])[0]

    def changes(self, name: str) -> tuple[set[tuple[Any, ...]], set[tuple[Any, ...]]]:
        """What the last tick added to a collection, and what it removed."""
        self._raise_failure(is_again=False)
        self._schema(name)
        with self._mutex:
            change = self._engine.changes.get(name)
        change = change or TickChange()
        return {reveal(f) for f in change.added}, {reveal(f) for f in change.removed}

    def delta(self, name: str) -> set[tuple[Any, ...]]:
        """What the last tick added to a collection."""
        return self.changes(name)[0]

    @property
    def stats(self) -> TickStats:
        """Ticks, seconds, scans, rebuilds and repairs."""
        return self._stats

    @property
    def strata(self) -> dict[str, int]:
        """The stratum of each collection; what negates or aggregates another stands above it."""
        levels = self._wired.strata()
        return {name: levels[name] for name in self.collections}

    @property
    def wired(self) -> TickProgram:
        """Collections, rules and strata, as they were fixed."""
        return self._wired

    @property
    def collections(self) -> tuple[str, ...]:
        """The names of the collections."""
        return tuple(name for name, _ in self._user_schemas())

    def explain(self, stage: str = "all") -> str:
        """What the compiler made of the rules: relations, rules, delta, ticks, calm."""
        from caladan.ticks.explain import explain

        return explain(self._wired, self._engine, stage, self._handed)

    def _user_schemas(self) -> list[tuple[str, Schema]]:
        every = self._wired.schemas.items()
        return [(name, schema) for name, schema in every if not schema.kind.is_internal]

    def _schema(self, name: str) -> Schema:
        if name not in self._wired.schemas:
            raise unknown(name, list(self.collections))
        return self._wired.schemas[name]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} after {self._ticks} ticks>"


def program(text: str, *, name: str = "<bloom>", **options: Any) -> Bloom:
    """An instance of a program that is written as text."""
    made = type("TextProgram", (Bloom, module(text, name=name)), {})
    return made(**options)


reserve(Bloom)
