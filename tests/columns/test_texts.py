"""Texts by Arrow and by Python: the same words, and functions of text in rules."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import caladan
from caladan.columns.layout import Words
from caladan.columns.texts import TextDomain
from caladan.program import thresholds

TEXTS = st.text(st.sampled_from("abß İZé \U0001d11e\u0301"), max_size=5)
COLUMNS = st.lists(TEXTS, max_size=12)


@given(st.lists(st.tuples(COLUMNS, st.booleans()), max_size=5), COLUMNS)
def test_words_are_the_same_however_texts_come(
    batches: list[tuple[list[str], bool]], sought: list[str]
) -> None:
    known: dict[str, int] = {}
    domain = TextDomain()
    with thresholds.override(grouping=2):
        for texts, whole in batches:
            words: Words = (
                domain.take_column(pa.array(texts, pa.string())) if whole else domain.take(texts)
            )
            for text in texts:
                known.setdefault(text, len(known))
            assert words.tolist() == [known[text] for text in texts]
            assert domain.size == max(1, len(known))
            assert domain.arrow(words, pa.string()).to_pylist() == texts
    assert [domain.find(text) for text in sought] == [known.get(text) for text in sought]
    assert domain.texts == list(known)


PROGRAM = """
database({p(I: integer, N: string)}).
made(I, T) <- p(I, N), T = concat(upper(N), '!').
part(T, count<I>) <- p(I, N), T = substring(N, 1, 2).
long(I) <- p(I, N), length(N) > 2.
some(I) <- p(I, N), substring(N, 1, 1) >= 'b'.
same(I, J) <- made(I, T), p(J, N), T = concat(upper(N), '!'), I < J.
query %s.
"""


@pytest.mark.parametrize("goal", ["made(I, T)", "part(T, C)", "long(I)", "some(I)", "same(I, J)"])
@given(column=st.lists(TEXTS, max_size=8))
def test_rules_with_functions_of_text(goal: str, column: list[str]) -> None:
    found: list[Any] = []
    for engine in ("reference", "embedded"):
        with caladan.connect(engine) as db, thresholds.override(grouping=2):
            db.add("p", pa.table({"I": range(len(column)), "N": pa.array(column, pa.string())}))
            found.append(sorted(db.run(PROGRAM % goal).answer.rows()))
    assert found[0] == found[1]


def test_a_function_is_called_once_for_each_input() -> None:
    seen: list[object] = []

    def twice(value: object) -> str:
        seen.append(value)
        return f"{value}{value}"

    with caladan.connect("embedded") as db, thresholds.override(grouping=2):
        db.define("twice", twice, returns="string")
        db.add("p", [(i, i % 3) for i in range(60)])
        answer = db.run("t(I, T) <- p(I, N), T = twice(N). query t(I, T).").answer.rows()
    assert sorted(answer) == [(i, f"{i % 3}{i % 3}") for i in range(60)]
    assert sorted(map(str, seen)) == ["0", "1", "2"]
