"""Every case of the page on missing values, on every engine."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import caladan as cal

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "missing.md"
FACTS = [(1, 10, "x"), (1, None, "x"), (2, 5, None), (3, None, None), (None, 7, "y")]
ROW = re.compile(r"^\| (?P<case>[^|]+) \| `(?P<rule>[^`|]+)` \| ?(?P<facts>.*?) ?\|$", re.M)

Row = tuple[object, ...]


def cases() -> Iterator[tuple[str, str, set[Row]]]:
    for found in ROW.finditer(PAGE.read_text("utf-8")):
        facts = re.findall(r"\(([^)]*)\)", found["facts"])
        yield found["case"], found["rule"], {tuple(map(value, f.split(", "))) for f in facts}


def value(text: str) -> object:
    if text == "-":
        return None
    return text if text.isalpha() else float(text) if "." in text else int(text)


CASES = list(cases())
IDS = [case for case, _, _ in CASES]


def test_the_page_has_its_table() -> None:
    assert len(CASES) > 40
    assert len(set(IDS)) == len(IDS)


def answer(db: cal.Session, rule: str, **options: object) -> set[Row]:
    db.add(
        "t", {"A": [f[0] for f in FACTS], "B": [f[1] for f in FACTS], "C": [f[2] for f in FACTS]}
    )
    rows = db.run(rule, **options)["p"].rows()  # type: ignore[arg-type]
    assert len(rows) == len(set(rows))
    return set(rows)


@pytest.mark.parametrize("engine", ["embedded", "reference"])
@pytest.mark.parametrize(("case", "rule", "facts"), CASES, ids=IDS)
def test_every_case(engine: str, case: str, rule: str, facts: set[Row]) -> None:
    with cal.connect(engine) as db:
        assert answer(db, rule) == facts


@pytest.mark.parametrize("strategy", ["auto", "frame", "pivoted", "meshed", "cubed"])
def test_every_case_on_spark(spark: object, strategy: str) -> None:
    with cal.connect(spark) as db:  # type: ignore[arg-type]
        for case, rule, facts in CASES:
            options = {} if strategy == "auto" else {"strategy": strategy}
            assert answer(db, rule, **options) == facts, case
