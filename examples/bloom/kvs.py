"""A key-value store: puts replace, gets are answered, deletes delete.

python examples/bloom/kvs.py
"""

from caladan import bloom


class KVS(bloom.Bloom):
    """Keys with values."""

    put = bloom.input("request", "key", "value")
    get = bloom.input("request", "key")
    remove = bloom.input("key")
    reply = bloom.output("request", to="value")
    state = bloom.table("key", to="value")

    @bloom.rules
    def store(self) -> None:
        """What is put is there from the next tick on."""
        self.state <<= self.put.project("key", "value")
        self.state -= (self.state * self.remove).lefts("key")

    @bloom.rules
    def answer(self) -> None:
        """What is asked for is answered at once."""
        self.reply |= (self.get * self.state).pairs("key").project("request", "value")


def main() -> None:
    """Put, get, replace, delete; in the background."""
    with KVS().run() as kvs:
        kvs.insert("put", [(1, "spice", 10), (2, "water", 3)])
        kvs.sync_do()
        print("spice:", kvs.call("get", [(3, "spice")], "reply"))
        kvs.insert("put", [(4, "spice", 11)])
        kvs.insert("remove", [("water",)])
        kvs.sync_do()
        kvs.sync_do()
        print("state:", kvs["state"].rows())
        print(kvs.explain("calm"))


if __name__ == "__main__":
    main()
