"""Access control kept live: who may read what, as groups, grants and denials come and go.

    python examples/bloom/access.py

The rules are text; every change is one tick, which costs what it changes.
"""

from caladan import bloom

RULES = """
    table member(user, team).            % of a user or a team in a team
    table grants(team, document).
    table denied(user, document).
    table inside(document, folder).
    scratch belongs(user, team).
    scratch below(document, folder).
    scratch may(user, document).
    scratch readers(document => number).

    belongs(U, T) <- member(U, T).
    belongs(U, S) <- belongs(U, T), member(T, S).
    below(D, F) <- inside(D, F).
    below(D, G) <- below(D, F), inside(F, G).
    may(U, D) <- belongs(U, T), grants(T, D), ~denied(U, D).
    may(U, D) <- belongs(U, T), grants(T, F), below(D, F), ~denied(U, D).
    readers(D, count<U>) <- may(U, D).
"""


def main() -> None:
    """Hire, move, deny, allow again."""
    access = bloom.program(RULES, name="access")
    access.insert("member", [("chani", "scouts"), ("paul", "council"), ("scouts", "fremen")])
    access.insert("grants", [("fremen", "maps"), ("council", "letters")])
    access.insert("inside", [("north", "maps"), ("south", "maps")])

    def tell(what: str) -> None:
        access.tick()
        added, removed = access.changes("may")
        print(f"{what}: +{sorted(added)} -{sorted(removed)}")

    tell("at first")
    access.insert("member", [("paul", "scouts")])
    tell("paul joins the scouts")
    access.insert("denied", [("paul", "south")])
    tell("but not the south")
    access.delete("inside", [("north", "maps")])
    tell("the north is no map any more")
    access.delete("denied", [("paul", "south")])
    access.delete("member", [("scouts", "fremen")])
    tell("the scouts leave")
    print("readers:", access["readers"].rows())
    access.stop()


if __name__ == "__main__":
    main()
