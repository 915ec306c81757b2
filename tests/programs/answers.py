"""Whether a run of a program of the corpus answers what it must."""

import warnings
from typing import Any

from tests.programs.compare import difference
from tests.programs.corpus import Folder
from tests.programs.truth import check_truth

import caladan


def answered(
    db: caladan.Session, folder: Folder, *, is_explained: bool = True, **options: Any
) -> caladan.Result:
    """Run a program over its facts: it answers what it must, and does what explain says.

    Engines that only tests have are not explained.
    """
    for relation, path in folder.facts.items():
        db.add(relation, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        out = db.run(folder.file, params=folder.params, **options)
        _check(folder, out)
        if is_explained:
            check_truth(db, folder.file, folder.params, out.stats, **options)
    return out


def _check(folder: Folder, out: caladan.Result) -> None:
    """Compare every answer and every exported relation with what is expected, types and all."""
    found = dict(zip(folder.queries(), out.answers, strict=True))
    found.update({stem: out[name] for name, stem in folder.exports().items()})
    for stem, relation in found.items():
        expected = folder.expected(stem)
        assert relation.types == tuple(map(str, expected.types)), stem
        different = difference(relation.rows(), expected.rows, ordered=folder.is_ordered)
        assert different is None, f"{stem}: {different}"
