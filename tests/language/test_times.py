"""Rules of a later time: `@next` and the like before the head, read and written back."""

import pytest

from caladan import CaladanError, connect
from caladan.language import parse, unparse
from caladan.program import TIMES


@pytest.mark.parametrize("time", TIMES[1:])
def test_a_time_is_read_and_written_back(time: str) -> None:
    text = f"@{time} state(K, V) <- put(_, K, V), ~gone(K).\n@{time} state(1, 2).\n"
    program = parse(text, language="deals")
    assert [rule.time for rule in program.rules] == [time, time]
    assert unparse(program) == text
    assert parse(unparse(program), language="deals") == program


def test_without_a_time_a_rule_takes_effect_now() -> None:
    assert [rule.time for rule in parse("p(1). q(X) <- p(X).").rules] == ["now", "now"]
    assert parse("@next p(1). q(1) <- p(1).") != parse("p(1). q(1) <- p(1).")


@pytest.mark.parametrize("engine", ["reference", "embedded"])
def test_a_batch_run_has_no_later(engine: str) -> None:
    with pytest.raises(CaladanError, match="C074"):
        connect(engine).run("p(1). @next q(X) <- p(X). query p(X).")
