"""The examples of Bloom say what they are about, and the CALM reports of the carts differ."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from caladan import bloom
from caladan.ticks.explain import calm

FOLDER = Path(__file__).parents[2] / "examples" / "bloom"


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / f"{name}.py"))


def test_key_value_store(capsys: pytest.CaptureFixture[str]) -> None:
    example("kvs")["main"]()
    out = capsys.readouterr().out
    assert "spice: {(3, 10)}\nstate: [('spice', 11)]\n" in out


def test_carts(capsys: pytest.CaptureFixture[str]) -> None:
    made = example("carts")
    made["main"]()
    out = capsys.readouterr().out
    assert "destructive: [('s', 'beer', 1)]" in out
    assert "disorderly: [('s', 'beer', 1)]" in out
    assert "lattice: [('s', frozenset({('beer', 1)}))]" in out
    assert "group_1 (for response) has to wait for all of action, checkout: the aggregate" in out
    reports = {name: calm(made[name]().wired) for name in ("Destructive", "Disorderly", "Latticed")}
    assert {point.why for point in reports["Destructive"].points} == {
        "facts are replaced",
        "negation",
    }
    assert "log" in reports["Disorderly"].monotone
    assert "response" not in reports["Disorderly"].monotone
    assert not reports["Latticed"].coordinate
    assert set(reports["Latticed"].monotone) == {"action", "checkout", "cart", "response"}
    bloom.check_lattice(made["LCart"], [made["LCart"]([(1, "a", 1)], [1]), made["LCart"]((), [2])])


def test_the_lattice_cart_does_not_care_for_order() -> None:
    made = example("carts")
    answers = set()
    for backwards in (False, True):
        cart = made["Latticed"]()
        events: list[tuple[str, tuple[Any, ...]]] = [
            ("action", (cart.address, "s", *action)) for action in made["ACTIONS"]
        ]
        events.append(("checkout", (cart.address, "s", (1, 2, 3, 4))))
        for name, fact in reversed(events) if backwards else events:
            cart.deliver(name, fact)
            cart.tick()
        answers.add(tuple(cart["response"].rows()))
        cart.stop()
    assert len(answers) == 1


def test_access(capsys: pytest.CaptureFixture[str]) -> None:
    example("access")["main"]()
    out = capsys.readouterr().out
    assert "but not the south: +[] -[('paul', 'south')]" in out
    assert "readers: [('letters', 1)]" in out


def test_what_is_not_monotone_on_a_lattice_is_told() -> None:
    class Reads(bloom.Bloom):
        arrives = bloom.channel("@to", "n")
        largest = bloom.lmax()
        over = bloom.lbool()
        exact = bloom.scratch("n")

        @bloom.rules
        def read(self) -> None:
            self.largest |= self.arrives.project("n")
            self.over |= self.largest > 3
            same = self.arrives.where(self.arrives.n == bloom.fn(abs)(self.largest.reveal()))
            self.exact |= same.project("n")

    report = calm(Reads().wired)
    assert {"largest", "over"} <= set(report.monotone)
    assert "exact" not in report.monotone
    assert [point.why for point in report.points] == ["`reveal`, which is not known to be monotone"]


@pytest.mark.parametrize(
    ("declared", "rule", "source"),
    [
        ("table t(a).", "s(X) <- u(X), ~t(X).", "t"),
        ("scratch t(a).", "s(X) <- u(X), ~t(X).", "t"),
        ("temp t(a).", "s(count<X>) <- t(X).", "t"),
        ("input t(a).", "s(count<X>) <- t(X).", "t"),
        ("channel t(a).", "s(count<X>) <- t(X). @async t(X) <- s(X).", "t"),
        ("loopback t(a).", "s(count<X>) <- t(X). @async t(X) <- s(X).", "t"),
        ("periodic t(1).", "s(count<X>) <- t(X, _).", "t"),
        ("stdio t.", "s(count<X>) <- t(X).", "t"),
        ("table t(a).", "s(X) <- u(X), ~v(X). v(X) <- t(X).", "t"),
        ("table t(a).", "s(X) <- u(X), ~v(X). @next v(X) <- t(X).", "t"),
        ("table t(a).", "@delete t(X) <- u(X).", "u"),
        ("table t(a => b).", "@upsert t(X, X) <- u(X).", "u"),
        ("table t(a => b).", "t(X, N) <- u(X), clock(N, _).", "u"),
    ],
)  # fmt: skip
def test_calm_knows_every_way_in_which_facts_arrive(declared: str, rule: str, source: str) -> None:
    made = bloom.program(f"{declared} scratch u(a). scratch v(a). scratch s(a).\n{rule}")
    report = calm(made.wired)
    assert any(source in sources for sources in report.coordinate.values())
    assert "coordination is needed:" in made.explain("calm")


def test_calm_asks_for_no_more_than_it_must() -> None:
    made = bloom.program(
        "table t(a). input u(a). input w(a). scratch v(a). scratch s(a). scratch r(a).\n"
        "t(X) <- u(X). v(X) <- t(X). s(X) <- v(X), ~r(X). r(X) <- u(X), w(X)."
    )
    report = calm(made.wired)
    assert set(report.coordinate.values()) == {("u", "w")}, "not r, which rules fill"
    assert set(report.monotone) == {"t", "u", "w", "v", "r"}
    assert report.together == {"r": ("u", "w")}
    assert "r joins facts of u, w" in made.explain("calm")
    grows = bloom.program("table t(a). scratch u(a). t(X) <- u(X).")
    assert "coordination: none is needed" in grows.explain("calm")
    grows.insert("t", [(1,)])
    assert "coordination: none is needed" in grows.explain("calm")
    grows.delete("t", [(1,)])
    assert "t has to wait for all of t, u: facts are deleted by calls" in grows.explain("calm")
    fed = bloom.program("table t(a). scratch u(a). scratch s(a). t(1). s(X) <- u(X), ~t(X).")
    assert not calm(fed.wired).coordinate
    fed.insert("t", [(2,)])
    assert "s has to wait for all of t: negation" in fed.explain("calm")
