"""Instances: threads, callbacks, timers, channels, failures, and what they show."""

import gc
import io
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from caladan import CaladanError, bloom


class KVS(bloom.Bloom):
    put = bloom.input("request", "key", "value")
    get = bloom.input("request", "key")
    reply = bloom.output("request", to="value")
    state = bloom.table("key", to="value")

    @bloom.rules
    def store(self) -> None:
        self.state <<= self.put.project("key", "value")
        self.reply |= (self.get * self.state).pairs("key").project("request", "value")


def test_an_instance_in_the_background_answers_threads() -> None:
    with KVS().run() as kvs:
        kvs.call("put", [(0, "k", 0)], "state", timeout=30)
        answers: list[int] = []

        def ask(number: int) -> None:
            for i in range(5):
                request = number * 10 + i
                own = lambda fact, number=request: fact[0] == number  # noqa: E731
                found = kvs.call("get", [(request, "k")], "reply", timeout=30, match=own)
                answers.extend(request for request, _ in found)

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert sorted(answers) == [number * 10 + i for number in range(4) for i in range(5)]
    assert not any(t.name == "bloom" and t.is_alive() for t in threading.enumerate())


def test_callbacks_changes_and_sync_do() -> None:
    kvs = KVS()
    seen: list[set[tuple[object, ...]]] = []
    kvs.on("reply", seen.append)
    kvs.insert("put", [(1, "a", 1)])
    assert kvs.sync_do(lambda: "done") == "done"
    kvs.sync_do()
    assert kvs.changes("state") == ({("a", 1)}, set())
    kvs.upsert("state", [("a", 2)])
    kvs.insert("get", [(2, "a")])
    kvs.tick()
    assert kvs.changes("state") == ({("a", 2)}, {("a", 1)})
    assert seen == [{(2, 2)}]
    with kvs.run():
        kvs.insert("get", [(3, "a")])
        kvs.sync_do()
        assert kvs.sync_do(lambda: seen[-1]) == {(3, 2)}


def test_a_failure_in_the_background_reaches_every_later_call(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kvs = KVS()
    kvs.insert("state", [("a", 1)])
    kvs.tick()
    kvs.run()
    with pytest.raises(bloom.KeyViolation):
        kvs.call("state", [("a", 2)], "reply", timeout=30)
    err = capsys.readouterr().err
    assert err.startswith("<KVS after 1 ticks> stopped:\nerror[C070]: two facts of `state`")
    assert "Traceback" not in err
    assert kvs["state"].rows() == [("a", 1)], "what it holds can be read, now that it is known"
    acts: list[Callable[[], object]] = [
        lambda: kvs.insert("put", [(1, "b", 2)]), lambda: kvs.upsert("state", [("a", 2)]),
        lambda: kvs.delete("state", [("a", 1)]), lambda: kvs.on("reply", print),
        kvs.tick, kvs.sync_do, lambda: kvs.call("get", [(1, "a")], "reply", timeout=30),
    ]  # fmt: skip
    for act in acts:
        with pytest.raises(bloom.KeyViolation):
            act()
    kvs.run()
    assert kvs.call("get", [(1, "a")], "reply", timeout=30) == {(1, 1)}
    kvs.stop()


@pytest.mark.parametrize("act", ["insert", "read", "value", "changes", "stop", "run"])
def test_the_next_call_raises_a_failure_that_nobody_waited_for(act: str) -> None:
    class Fails(bloom.Bloom):
        t = bloom.table("a", to="b")
        m = bloom.lmax()

    program = Fails().run()
    failed = threading.Event()
    program.on("t", lambda facts: failed.set())
    program.on("t", lambda facts: 1 / 0)  # type: ignore[arg-type, return-value]
    program.insert("t", [(1, 2)])
    assert failed.wait(30)
    for thread in threading.enumerate():
        if thread.name == "bloom":
            thread.join(30)
    acts: dict[str, Callable[[], object]] = {
        "insert": lambda: program.insert("t", [(2, 2)]), "read": lambda: program["t"],
        "value": lambda: program.value("m"), "changes": lambda: program.changes("t"),
        "stop": program.stop, "run": program.run,
    }  # fmt: skip
    with pytest.raises(ZeroDivisionError):
        acts[act]()
    program.stop()


def test_a_script_whose_program_fails_says_so_and_ends_with_its_exit_code() -> None:
    script = (
        "from caladan import bloom\n"
        "p = bloom.program('table t(a => b).').run()\n"
        "p.insert('t', [(1, 2), (1, 3)])\n"
        "import time\n"
        "while any(t.name == 'bloom' for t in __import__('threading').enumerate()):\n"
        "    time.sleep(0.01)\n"
        "p.insert('t', [(4, 5)])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "stopped:\nerror[C070]" in done.stderr
    assert "line 7" in done.stderr, "where the next call stands"


def test_who_waits_is_woken_by_stop() -> None:
    kvs = KVS().run()
    ended: list[str] = []

    def wait(act: Callable[[], object]) -> None:
        try:
            act()
        except CaladanError as problem:
            ended.append(problem.diagnostics[0].message)

    threads = [
        threading.Thread(target=wait, args=(lambda: kvs.call("get", [(1, "no")], "reply"),)),
        threading.Thread(target=wait, args=(lambda: kvs.call("get", [(2, "no")], "reply", None),)),
    ]
    for each in threads:
        each.start()
    end = time.monotonic() + 30
    while kvs.stats.ticks < 2 and time.monotonic() < end:
        time.sleep(0.01)
    started = time.monotonic()
    kvs.stop()
    for each in threads:
        each.join(30)
    assert time.monotonic() - started < 5
    assert set(ended) <= {"the instance was stopped before facts of `reply` came"}
    assert len(ended) == 2


def test_what_is_due_survives_a_tick_that_failed() -> None:
    kvs = KVS()
    kvs.insert("put", [(1, "a", 1)])
    kvs.tick()
    kvs.insert("state", [("a", 5), ("b", 1), ("b", 2)])
    with pytest.raises(bloom.KeyViolation):
        kvs.tick()
    kvs.insert("get", [(7, "a")])
    assert kvs.tick()["reply"].rows() == [(7, 1)]
    assert kvs["state"].rows() == [("a", 1)]


@pytest.mark.parametrize("repair", ["auto", "never"])
def test_derived_contents_survive_a_tick_that_failed(repair: bloom.Repair) -> None:
    program = bloom.program(
        "table t(a, b).\nscratch p(a, b).\nscratch q(a => b).\nscratch n(c => d).\n"
        "p(A, B) <- t(A, B).\np(A, C) <- p(A, B), t(B, C).\nq(A, B) <- t(A, B).\n"
        "n(1, count<_>) <- p(A, B).\n@next t(8, 9) <- t(1, 2).",
        repair=repair,
    )
    program.insert("t", [(1, 2), (2, 3)])
    program.tick()
    program.delete("t", [(2, 3)])
    program.insert("t", [(3, 4), (3, 5)])
    with pytest.raises(bloom.KeyViolation):
        program.tick()
    assert program.tick()["t"].rows() == [(1, 2), (2, 3), (8, 9)]
    assert program["p"].rows() == [(1, 2), (1, 3), (2, 3), (8, 9)]
    assert program["n"].rows() == [(1, 4)]
    program.delete("t", [(1, 2)])
    assert program.tick()["p"].rows() == [(2, 3), (8, 9)]


def test_timers_tell_the_time() -> None:
    class Timed(bloom.Bloom):
        beat = bloom.periodic(5)
        log = bloom.table("number", to="time")

        @bloom.rules
        def note(self) -> None:
            self.log |= self.beat

    now = [100.0]
    program = Timed(clock=lambda: now[0])
    program.tick()
    assert program["log"].rows() == []
    now[0] = 105.0
    program.tick()
    now[0] = 117.0
    program.tick(2)
    assert program["log"].rows() == [(0, 105.0), (1, 117.0)]


def test_a_timer_wakes_the_instance() -> None:
    class Timed(bloom.Bloom):
        beat = bloom.periodic(0.01)
        log = bloom.table("number", to="time")

        @bloom.rules
        def note(self) -> None:
            self.log |= self.beat

    with Timed().run() as program:
        end = time.monotonic() + 30
        while program["log"].count() < 2 and time.monotonic() < end:
            time.sleep(0.01)
        assert program["log"].count() >= 2


class Ping(bloom.Bloom):
    message = bloom.channel("@to", "sender", "count")
    start = bloom.input("to", "sender")
    heard = bloom.table("count")

    @bloom.rules
    def play(self) -> None:
        self.message @= self.start.project("to", "sender", 0)
        self.heard |= self.message.project("count")
        back = self.message.where(self.message["count"] < 4)
        self.message @= back.project("sender", "to", self.message["count"] + 1)


def test_instances_send_to_each_other() -> None:
    network = bloom.Network()
    one, two = (Ping(network=network, address=name) for name in ("one", "two"))
    one.insert("start", [("two", "one")])
    for _ in range(6):
        one.tick()
        two.tick()
    assert one["heard"].rows() == [(1,), (3,)]
    assert two["heard"].rows() == [(0,), (2,), (4,)]
    with pytest.raises(CaladanError, match="address"):
        Ping(network=network, address="one")
    one.stop()
    two.stop()


def test_lines_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    class Hello(bloom.Bloom):
        terminal = bloom.stdio()
        name = bloom.input("who")

        @bloom.rules
        def greet(self) -> None:
            self.terminal @= self.name.project(bloom.fn(lambda who: f"hello {who}")(self.name.who))

    hello = Hello()
    hello.insert("name", [("Chani",)])
    hello.tick(2)
    assert capsys.readouterr().out == "hello Chani\n"


def test_lines_that_a_program_starts_with_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    class Hello(bloom.Bloom):
        terminal = bloom.stdio()
        heard = bloom.table("line")

        @bloom.bootstrap
        def begin(self) -> None:
            self.terminal @= [("ready",)]

        @bloom.rules
        def note(self) -> None:
            self.heard |= self.terminal

    hello = Hello().tick(2)
    assert capsys.readouterr().out == "ready\n"
    assert hello["heard"].rows() == []


def test_lines_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Echo(bloom.Bloom):
        terminal = bloom.stdio()
        heard = bloom.table("line")

        @bloom.rules
        def note(self) -> None:
            self.heard |= self.terminal

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n"), "utf-8"))
    echo = Echo().run()
    with pytest.raises(UnicodeDecodeError):
        echo.call("terminal", [], "heard", timeout=30)
    echo.stop()
    monkeypatch.setattr("sys.stdin", io.StringIO("one\ntwo\n"))
    with Echo().run() as echo:
        end = time.monotonic() + 30
        while echo["heard"].count() < 2 and time.monotonic() < end:
            time.sleep(0.01)
        assert echo["heard"].rows() == [("one",), ("two",)]


def test_a_forgotten_instance_is_gone() -> None:
    network = bloom.Network()
    Ping(network=network, address="here")
    gc.collect()
    Ping(network=network, address="here").stop()


def test_contents_in_every_form() -> None:
    kvs = KVS()
    kvs.insert("state", [("b", 2), ("a", None)])
    kvs.tick()
    assert kvs["state"].rows() == [("a", None), ("b", 2)]
    assert kvs["state"].columns == ("key", "value")
    assert kvs["state"].count() == len(kvs["state"]) == 2
    kvs.delete("state", [("a", None)])
    kvs.tick()
    assert kvs["state"].arrow().to_pydict() == {"key": ["b"], "value": [2]}
    assert kvs["state"].pandas().shape == (1, 2)
    assert kvs["reply"].arrow().num_rows == 0
    assert "state" in kvs
    assert ("b", 2) in kvs["state"]


def test_functions_are_called_once_for_each_distinct_input() -> None:
    calls: list[int] = []

    def double(value: int) -> int:
        calls.append(value)
        return 2 * value

    class Doubled(bloom.Bloom):
        t = bloom.table("k", "v")
        out = bloom.scratch("k", "v")

        @bloom.rules
        def derive(self) -> None:
            self.out |= self.t.project("k", bloom.fn(double)(self.t.v))

    program = Doubled()
    program.insert("t", [(k, k % 3) for k in range(30)])
    program.tick()
    assert sorted(calls) == [0, 1, 2]
    assert "double(V_1)" in program.explain("rules")


def test_a_steady_program_does_not_grow() -> None:
    import gc
    import tracemalloc

    kvs = KVS()

    def ticks(first: int, last: int) -> None:
        for i in range(first, last):
            kvs.insert("put", [(i, i % 50, i)])
            kvs.insert("get", [(i, i % 50)])
            kvs.tick()

    ticks(0, 300)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    ticks(300, 1300)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 50_000


class Ending(bloom.Bloom):
    t = bloom.table("k", "v")

    @bloom.rules
    def end(self) -> None:
        self.halt |= self.t.where(self.t.v > 10).project("k")


def test_a_rule_halts_a_run() -> None:
    program, over = Ending(), threading.Event()
    program.on_shutdown(over.set)
    program.run()
    program.insert("t", [("a", 1)])
    program.sync_do()
    assert not over.is_set()
    program.insert("t", [("b", 11)])
    assert over.wait(10)
    assert program["t"].rows() == [("a", 1), ("b", 11)]
    assert program["halt"].rows() == [("b",)]
    program.stop()


def test_a_halt_ends_ticks_by_hand_and_runs_in_the_foreground() -> None:
    program = Ending()
    calls: list[int] = []
    program.on_shutdown(lambda: calls.append(program.stats.ticks))
    program.insert("t", [("b", 11)])
    program.tick(5)
    assert calls == [1]
    program = Ending()
    program.insert("t", [("b", 11)])
    assert program.run_fg().stats.ticks == 1
    assert "halt" not in bloom.program("table t(a).").collections


def test_stop_ends_a_run_in_the_foreground() -> None:
    program = bloom.program("table t(a).")
    runner = threading.Thread(target=program.run_fg)
    runner.start()
    program.insert("t", [(1,)])
    deadline = time.monotonic() + 10
    while not program["t"].rows() and time.monotonic() < deadline:
        time.sleep(0.01)
    program.stop()
    runner.join(10)
    assert not runner.is_alive()
    assert program["t"].rows() == [(1,)]


def test_a_pause_keeps_what_arrives() -> None:
    class Listening(bloom.Bloom):
        talk = bloom.channel("@to", "text")
        heard = bloom.table("text")
        say = bloom.input("to", "text")

        @bloom.rules
        def listen(self) -> None:
            self.heard |= self.talk.payloads
            self.talk @= self.say

    one, other = Listening().run(), Listening().run()
    other.pause()
    one.insert("say", [(other.address, "hello")])
    one.sync_do()
    assert other["heard"].rows() == []
    other.run()
    deadline = time.monotonic() + 10
    while not other["heard"].rows() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert other["heard"].rows() == [("hello",)]
    one.stop()
    other.stop()


def test_the_delta_is_what_the_last_tick_added() -> None:
    program = bloom.program("table t(a).\nscratch s(a).\ns(X) <- t(X).")
    program.insert("t", [(1,), (2,)])
    program.tick()
    program.insert("t", [(3,)])
    assert program.tick().delta("s") == {(3,)}


def test_facts_arrive_at_what_is_sent_to_alone() -> None:
    program = bloom.program("table t(a).")
    program.deliver("t", (1,))
    assert program.tick()["t"].rows() == []
