"""A data engineer: which accounts belong to one customer, and what each customer is worth.

    python examples/users/data_engineer.py [FOLDER]

Files in, rules between, a file out. The same script runs on Spark: `cal.connect("spark")`, or
start it with spark-submit.
"""

import csv
import sys
import tempfile
from pathlib import Path

import caladan as cal

RULES = """
    % Accounts that share a phone or a mail are one customer, however many steps apart.
    same(A, B) <- contact(A, V), contact(B, V).
    customer(A, mmin<B>) <- same(A, B).
    customer(A, mmin<C>) <- same(A, B), customer(B, C).

    worth(C, count<O>, sum<V>) <- customer(A, C), orders(O, A, V).
    query worth(C, Orders, Total).
"""


def write(path: Path, rows: list[tuple[object, ...]]) -> None:
    """A csv file."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def main(folder: Path) -> None:
    """Make the files, run the rules, write the answer."""
    write(folder / "contact.csv", [
        ("a1", "ann@example.org"), ("a2", "ann@example.org"), ("a2", "555-01"),
        ("a3", "555-01"), ("b1", "bob@example.org"),
    ])  # fmt: skip
    write(folder / "orders.csv", [
        ("o1", "a1", 20.0), ("o2", "a3", 5.5), ("o3", "b1", 7.0), ("o4", "a2", 4.5),
    ])  # fmt: skip
    with cal.connect("embedded") as db:
        db.add("contact", folder / "contact.csv", header=False)
        db.add("orders", folder / "orders.csv", header=False)
        out = db.run(RULES)
        out.answer.write(folder / "worth.parquet", mode="overwrite")
        out.answer.show()
        # The next step of the pipeline reads the file, and tables meet SQL.
        db.add("worth", folder / "worth.parquet")
        print(db.sql("SELECT max(Total) AS best FROM worth").rows())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
