"""Three shopping carts, and what their CALM reports say.

    python examples/bloom/carts.py

The *destructive* cart keeps counts and changes them: every action is a point of order. The
*disorderly* cart only writes actions down, and adds up at checkout: the sum alone is one. The
*lattice* cart has the checkout name the actions that it is about: once all of these have come, the
sum is final, whatever else arrives, and nothing needs coordination.
"""

from collections.abc import Iterable
from typing import Any

from caladan import bloom


class Destructive(bloom.Bloom):
    """Counts that are replaced; the order of actions matters."""

    action = bloom.channel("@to", "session", "item", "count")
    checkout = bloom.channel("@to", "session")
    cart = bloom.table("session", "item", to="count")
    response = bloom.scratch("session", "item", "count")

    @bloom.rules
    def change(self) -> None:
        """The first of an item, and more of it."""
        known = (self.action * self.cart).pairs("session", "item")
        total = self.action["count"] + self.cart["count"]
        self.cart <<= known.project(self.action.session, self.action.item, total)
        self.cart <<= self.action.payloads.notin(self.cart, "session", "item")

    @bloom.rules
    def answer(self) -> None:
        """What is there when the checkout arrives."""
        found = (self.checkout * self.cart).pairs("session")
        self.response |= found.rights().where(self.cart["count"] > 0)


class Disorderly(bloom.Bloom):
    """Actions as they come, added up when asked."""

    action = bloom.channel("@to", "session", "request", "item", "count")
    checkout = bloom.channel("@to", "session")
    log = bloom.table("session", "request", to=["item", "count"])
    response = bloom.scratch("session", "item", "count")

    @bloom.rules
    def note(self) -> None:
        """Nothing is ever changed."""
        self.log |= self.action.payloads

    @bloom.rules
    def answer(self) -> None:
        """The sums of what has come so far."""
        asked = (self.checkout * self.log).rights("session")
        sums = asked.group(["session", "item"], count=bloom.sum("count"))
        self.response |= sums.where(sums["count"] > 0)


class LCart(bloom.Lattice):
    """Actions of a session, and the requests that a checkout is about, if it has come."""

    word = "lcart"
    monotone = frozenset({"summary"})

    def __init__(self, actions: Iterable[Any] = (), wanted: Iterable[int] = ()) -> None:
        self.actions, self.wanted = frozenset(actions), frozenset(wanted)

    @classmethod
    def bottom(cls) -> "LCart":
        return cls()

    def merge(self, other: Any) -> "LCart":
        return LCart(self.actions | other.actions, self.wanted | other.wanted)

    def reveal(self) -> tuple[Any, ...]:
        return (self.actions, self.wanted)

    def summary(self) -> bloom.LSet:
        """The sums, once all that was wanted has come: monotone, for it never changes then."""
        counts: dict[str, int] = {}
        present = {request for request, _, _ in self.actions}
        if not self.wanted or not self.wanted <= present:
            return bloom.LSet()
        for request, item, count in self.actions:
            if request in self.wanted:
                counts[item] = counts.get(item, 0) + count
        return bloom.LSet((item, n) for item, n in counts.items() if n > 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LCart) and other.reveal() == self.reveal()

    def __hash__(self) -> int:
        return hash(self.reveal())


class Latticed(bloom.Bloom):
    """A cart that says by itself when it is complete."""

    action = bloom.channel("@to", "session", "request", "item", "count")
    checkout = bloom.channel("@to", "session", "requests")
    cart = bloom.table("session", to={"state": LCart})
    response = bloom.table("session", to={"items": bloom.LSet})

    @bloom.rules
    def note(self) -> None:
        """Actions and the checkout go into the same value, in any order."""
        a, c = self.action, self.checkout
        one = bloom.fn(lambda request, item, count: LCart([(request, item, count)]), "action")
        all_of = bloom.fn(lambda requests: LCart((), requests), "wanted")
        self.cart |= a.project("session", one(a.request, a.item, a["count"]))
        self.cart |= c.project("session", all_of(c.requests))

    @bloom.rules
    def answer(self) -> None:
        """Empty until all has come, then for ever the same."""
        self.response |= self.cart.project("session", self.cart.state.method("summary"))


ACTIONS = [(1, "beer", 2), (2, "books", 1), (3, "beer", -1), (4, "books", -1)]


def main() -> None:
    """The same session with each cart; the lattice cart gets it backwards."""
    one = Destructive()
    for _, item, count in ACTIONS:
        one.deliver("action", (one.address, "s", item, count))
        one.tick()
    one.deliver("checkout", (one.address, "s"))
    print("destructive:", one.tick()["response"].rows())
    two = Disorderly()
    for request, item, count in reversed(ACTIONS):
        two.deliver("action", (two.address, "s", request, item, count))
        two.tick()
    two.deliver("checkout", (two.address, "s"))
    print("disorderly:", two.tick()["response"].rows())
    three = Latticed()
    three.deliver("checkout", (three.address, "s", (1, 2, 3, 4)))
    for request, item, count in reversed(ACTIONS):
        three.tick()
        three.deliver("action", (three.address, "s", request, item, count))
    print("lattice:", three.tick()["response"].rows())
    for each in (one, two, three):
        print(f"\n{type(each).__name__}\n{each.explain('calm')}")
        each.stop()


if __name__ == "__main__":
    main()
