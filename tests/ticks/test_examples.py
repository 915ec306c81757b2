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
