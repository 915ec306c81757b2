"""Makes the data of the supply-chain example: the same files every time.

    python examples/supply_chain/generate.py [FOLDER]

A package depends on packages of lower layers, mostly on a few that everybody uses, as in the real
registries; services use packages of the upper layers.
"""

import csv
import random
import sys
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

FOLDER = Path(__file__).parent / "data"
RELATIONS = ("service", "uses", "depends", "advisory", "waived")

PACKAGES = 24_000
LAYERS = 12
SERVICES = 400
ADVISORIES = 400

WORDS = {
    "first": """
        async big bright cloud core deep easy fast flat free hyper jumbo lazy lean light micro mini
        multi neo next nano open plain pure quick raw safe sharp slim smart soft solid swift tiny
        """,
    "second": """
        archive auth buffer cache chart cipher codec color config cookie crypto csv date diff dns
        email event file form git glob graph hash html http image json kafka log markdown math mime
        orm parse path pdf proxy queue regex retry rpc schema socket sql stream string table task
        template test token tree unicode url uuid xml yaml zip
        """,
    "third": "client core cli dom engine io kit lib loader model plus reader server tools utils",
    "team": "billing checkout data growth identity mobile payments platform search shipping",
}
FIRST, SECOND, THIRD, TEAMS = (text.split() for text in WORDS.values())


def main(folder: Path = FOLDER) -> None:
    """Write a file for each relation."""
    rng = random.Random(2024)
    names = _names(rng)
    layer = {name: i * LAYERS // PACKAGES for i, name in enumerate(names)}
    services = [f"{rng.choice(TEAMS)}-{word}-{i}" for i, word in enumerate(_words(rng, SERVICES))]
    advisories = [(f"CVE-2024-{10_000 + i}", name) for i, name in _vulnerable(rng, names)]
    upper = [n for n in names if layer[n] >= LAYERS // 3]

    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "service.csv", ((s, s.split("-", 1)[0]) for s in services))
    _write(
        folder / "uses.csv",
        {(s, rng.choice(upper)) for s in services for _ in range(rng.randint(1, 12))},
    )
    _write(folder / "depends.csv", _depends(rng, names, layer))
    _write(
        folder / "advisory.csv",
        ((a, p, rng.choice((4, 5, 6, 7, 7, 8, 9, 10)), _day(rng)) for a, p in advisories),
    )
    _write(
        folder / "waived.csv",
        {(rng.choice(services), rng.choice(advisories)[0]) for _ in range(2_000)},
    )


def _names(rng: random.Random) -> list[str]:
    every = [f"{a}-{b}-{c}" for a in FIRST for b in SECOND for c in THIRD]
    return rng.sample(every, PACKAGES)


def _words(rng: random.Random, count: int) -> list[str]:
    return [rng.choice(SECOND) for _ in range(count)]


def _vulnerable(rng: random.Random, names: list[str]) -> Iterable[tuple[int, str]]:
    return enumerate(rng.choice(names) for _ in range(ADVISORIES))


def _depends(
    rng: random.Random, names: list[str], layer: dict[str, int]
) -> Iterable[tuple[str, str]]:
    """Up to five dependencies of each package, in the layers below its own."""
    below = {n: [m for m in names if layer[m] == n] for n in range(LAYERS)}
    found: set[tuple[str, str]] = set()
    for name in names:
        if layer[name] == 0:
            continue
        for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 5))):
            candidates = below[max(0, layer[name] - rng.choice((1, 1, 1, 2, 3)))]
            # The square of a random number is mostly small: the first packages are the popular.
            found.add((name, candidates[int(rng.random() ** 2 * len(candidates))]))
    return found


def _day(rng: random.Random) -> str:
    return f"{datetime(2024, 1, 1) + timedelta(days=rng.randrange(366)):%Y-%m-%d}"


def _write(path: Path, rows: Iterable[tuple[object, ...]]) -> None:
    ordered = sorted(rows, key=str)
    # Written aside and moved into place, so that an interrupted run leaves no half of a file.
    aside = path.with_suffix(".part")
    with aside.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(ordered)
    aside.replace(path)
    print(f"  {path.name}: {len(ordered):,} rows")


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
