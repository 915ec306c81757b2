"""Watched relations follow data in which values are missing, also if none was at first."""

import pytest

import caladan as cal

PROGRAM = """
tc(X, Y) <- e(X, Y).
tc(X, Z) <- tc(X, Y), e(Y, Z).
n(X, count<Y>, sum<Y>) <- e(X, Y).
"""


def run(rows: list[tuple[object, ...]], name: str) -> set[tuple[object, ...]]:
    with cal.connect("reference") as db:
        db.add("e", rows)
        return set(db.run(PROGRAM)[name].rows())


@pytest.mark.parametrize("first", [[(1, 2), (2, 3)], [(1, None), (2, 3)]])
def test_watched_relations_follow(first: list[tuple[object, ...]]) -> None:
    rows = list(first)
    with cal.connect("embedded") as db:
        db.add("e", rows)
        live = db.watch(PROGRAM)
        seen = {name: set(live[name].rows()) for name in ("tc", "n")}
        told: list[object] = []
        live.on_change(told.append)
        for inserted, deleted in (
            ([(3, None)], []),
            ([(None, 1)], []),
            ([], [(3, None)]),
            ([(3, 4), (4, None)], [(1, 2), (1, None)]),
        ):
            for row in inserted:
                db.insert("e", [row])
                rows.append(row)
            for row in deleted:
                db.delete("e", [row])
                rows = [each for each in rows if each != row]
            for name, before in seen.items():
                now = set(live[name].rows())
                assert now == run(rows, name)
                change = live.changes(name)
                assert set(change.added.rows()) == now - before
                assert set(change.removed.rows()) == before - now
                seen[name] = now
        assert told


def test_a_program_that_numbers_rows_is_not_watched() -> None:
    with cal.connect("embedded") as db:
        db.add("e", [(1, 2)])
        with pytest.raises(cal.CaladanError, match="C051"):
            db.watch("s(X, sum<Y>) <- e[_](X, Y).")
