"""A Bloom programmer: a leader of replicas by votes, tick by tick.

python examples/users/bloom.py
"""

from caladan import bloom

RULES = """
    table member(replica).
    table vote(voter => replica).
    scratch tally(replica => votes).
    scratch size(n).
    scratch leader(replica).

    tally(R, count<V>) <- vote(V, R).
    size(count<M>) <- member(M).
    leader(R) <- tally(R, N), size(M), 2 * N > M.
"""


def main() -> None:
    """Vote until there is a leader; lose a vote."""
    cluster = bloom.program(RULES, name="cluster")
    cluster.insert("member", [("a",), ("b",), ("c",)])
    for voter, choice in (("a", "a"), ("b", "c"), ("c", "c")):
        cluster.insert("vote", [(voter, choice)])
        cluster.tick()
        print(f"{voter} votes for {choice}: leader {cluster['leader'].rows()}")
    cluster.delete("vote", [("b", "c")])
    cluster.tick()
    cluster.tick()
    print(f"b takes it back: leader {cluster['leader'].rows()}")
    cluster.stop()


if __name__ == "__main__":
    main()
