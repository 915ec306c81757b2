"""A knowledge graph: triples, a small ontology, and what follows from both.

python examples/users/knowledge_graph.py
"""

import caladan as cal

TRIPLES = [
    ("paul", "type", "duke"),
    ("duke", "subclass", "noble"),
    ("noble", "subclass", "person"),
    ("leto", "parent", "paul"),
    ("jessica", "parent", "paul"),
    ("mohiam", "parent", "jessica"),
    ("parent", "subproperty", "ancestor"),
    ("ancestor", "type", "transitive"),
    ("parent", "range", "person"),
]

RULES = """
    % The part of RDFS and OWL that people use most.
    holds(S, P, O) <- triple(S, P, O).
    holds(S, Q, O) <- holds(S, P, O), holds(P, subproperty, Q).
    holds(S, P, O) <- holds(P, type, transitive), holds(S, P, M), holds(M, P, O).
    holds(A, subclass, C) <- holds(A, subclass, B), holds(B, subclass, C).
    holds(S, type, C) <- holds(S, type, B), holds(B, subclass, C).
    holds(O, type, C) <- holds(_, P, O), holds(P, range, C).
"""


def main() -> None:
    """Derive, and ask in three ways."""
    with cal.connect("embedded") as db:
        db.add("triple", TRIPLES)
        db.run(RULES + "query holds(S, P, O).")
        print("ancestors of paul:", [s for s, _, _ in db.query("holds(S, ancestor, paul)").rows()])
        print("paul is a", [o for _, _, o in db.query("holds(paul, type, O)").rows()])
        found = db.find("who what", "holds(who, 'type', what)", what=cal.one_of({"person"}))
        print("persons:", sorted(who for who, _ in found))


if __name__ == "__main__":
    main()
