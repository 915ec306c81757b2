"""A program analyst: what a variable may point to (Andersen), and which calls may be reached.

    python examples/users/program_analyst.py

Facts come from a parser of yours; here they are four lines of a small program.
"""

import caladan as cal

RULES = """
    database({
        new(Var: string, Object: string), assign(To: string, From: string),
        store(Base: string, Field: string, From: string),
        load(To: string, Base: string, Field: string),
        call(Site: string, Base: string), method(Object: string, Name: string)
    }).

    points(V, O) <- new(V, O).
    points(V, O) <- assign(V, W), points(W, O).
    points(V, O) <- load(V, B, F), points(B, P), heap(P, F, O).
    heap(P, F, O) <- store(B, F, W), points(B, P), points(W, O).

    calls(S, M) <- call(S, B), points(B, O), method(O, M).
    dead(M) <- method(_, M), ~calls(_, M).

    query calls(Site, Method).
    query dead(Method).
"""

FACTS = {
    "new": [("a", "A@1"), ("b", "B@2"), ("box", "Box@3")],
    "assign": [("x", "a")],
    "store": [("box", "item", "x")],
    "load": [("y", "box", "item")],
    "call": [("line 9", "y")],
    "method": [("A@1", "A.run"), ("B@2", "B.run")],
}


def main() -> None:
    """Analyse; ask about one variable; follow a change of the program."""
    with cal.connect("embedded") as db:
        for name, rows in FACTS.items():
            db.add(name, rows)
        live = db.watch(RULES)
        print("calls:", live["calls"].rows(), "dead:", live["dead"].rows())
        db.insert("assign", [("x", "b")])  # somebody edits the program
        print("calls:", live["calls"].rows(), "dead:", live["dead"].rows())
        live.close()
        db.run(RULES)
        print("y points to", [o for _, o in db.query("points(y, O)").rows()])


if __name__ == "__main__":
    main()
