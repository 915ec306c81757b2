"""The published RaSQL queries, each with the DeALS program that must give the same facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Twin:
    """A query and a program over the same data; `answer` is the relation to compare."""

    name: str
    sql: str
    deals: str
    data: dict[str, Any]
    params: dict[str, Any] = field(default_factory=dict)


EDGES = {
    "Src": [1, 2, 3, 4, 1, 5, 6, 7, 3, 8],
    "Dst": [2, 3, 4, 2, 5, 6, 7, 5, 8, 9],
    "Cost": [4, 2, 7, 1, 3, 2, 2, 9, 1, 5],
}
GRAPH = {"edge": EDGES}
DAG = {"edge": {"Src": [1, 1, 2, 3, 4, 4, 5, 2, 6], "Dst": [2, 3, 4, 4, 5, 6, 7, 5, 7]}}
PARENTS = {
    "rel": {
        "Parent": ["ann", "ann", "bob", "bob", "cid", "cid", "dot", "eve"],
        "Child": ["bob", "cid", "dot", "eve", "fay", "gus", "hal", "ida"],
    }
}
ASSEMBLY = {
    "assbl": {
        "Part": ["bike", "bike", "wheel", "wheel", "frame", "hub"],
        "Spart": ["wheel", "frame", "rim", "hub", "tube", "axle"],
    },
    "basic": {"Part": ["rim", "axle", "tube"], "Days": [3, 9, 5]},
}
REPORTS = {
    "report": {
        "Emp": ["bob", "cid", "dot", "eve", "fay", "gus"],
        "Mgr": ["ann", "ann", "bob", "bob", "cid", "fay"],
    }
}
SALES = {
    "sales": {"M": [1, 2, 3, 4, 5], "P": [100.0, 50.0, 80.0, 20.0, 10.0]},
    "sponsor": {"M1": [1, 1, 2, 4], "M2": [2, 3, 4, 5]},
}
INTERVALS = {"inter": {"S": [1, 2, 5, 10, 11, 20, 14], "E": [3, 6, 8, 12, 15, 22, 14]}}
PARTY = {
    "organizer": {"OrgName": ["ann", "bob", "cid"]},
    "friend": {
        "Pname": ["ann", "bob", "cid", "ann", "bob", "dot", "eve", "dot", "ann", "bob", "dot"],
        "FName": ["dot", "dot", "dot", "eve", "eve", "eve", "fay", "fay", "fay", "gus", "gus"],
    },
}
SHARES = {
    "shares": {
        "By": ["a", "a", "b", "c", "b", "d", "c"],
        "Of": ["b", "c", "d", "d", "c", "e", "e"],
        "Percent": [60, 20, 30, 30, 40, 40, 20],
    }
}

CLOSURE = """
WITH recursive tc(Src, Dst) AS
  (SELECT Src, Dst FROM edge) UNION
  (SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src)
"""
COMPONENTS = """
WITH recursive cc(Src, min() AS CmpId) AS
  (SELECT Src, Src FROM edge) UNION
  (SELECT edge.Dst, cc.CmpId FROM cc, edge WHERE cc.Src = edge.Src)
"""
CC_RULES = """
cc(X, mmin<X>) <- edge(X, _, _).
cc(Y, mmin<I>) <- cc(X, I), edge(X, Y, _).
"""

TWINS = (
    Twin(
        "tc",
        CLOSURE + "SELECT Src, Dst FROM tc",
        "tc(X, Y) <- edge(X, Y, _). tc(X, Y) <- tc(X, Z), edge(Z, Y, _). query tc(X, Y).",
        GRAPH,
    ),
    Twin(
        "tc_nonlinear",
        """WITH recursive tc(Src, Dst) AS
             (SELECT Src, Dst FROM edge) UNION
             (SELECT a.Src, b.Dst FROM tc a, tc b WHERE a.Dst = b.Src)
           SELECT Src, Dst FROM tc""",
        "tc(X, Y) <- edge(X, Y, _). tc(X, Y) <- tc(X, Z), tc(Z, Y). query tc(X, Y).",
        GRAPH,
    ),
    Twin(
        "reach",
        """WITH recursive reach(Dst) AS
             (SELECT {source}) UNION
             (SELECT edge.Dst FROM reach, edge WHERE reach.Dst = edge.Src)
           SELECT Dst FROM reach""",
        "reach({source}). reach(Y) <- reach(X), edge(X, Y, _). query reach(X).",
        GRAPH,
        {"source": 3},
    ),
    Twin(
        "sg",
        """WITH recursive sg(X, Y) AS
             (SELECT a.Child, b.Child FROM rel a, rel b
              WHERE a.Parent = b.Parent AND a.Child <> b.Child) UNION
             (SELECT a.Child, b.Child FROM rel a, sg, rel b
              WHERE a.Parent = sg.X AND b.Parent = sg.Y)
           SELECT X, Y FROM sg""",
        """sg(X, Y) <- rel(P, X), rel(P, Y), X ~= Y.
           sg(X, Y) <- rel(A, X), sg(A, B), rel(B, Y). query sg(X, Y).""",
        PARENTS,
    ),
    Twin(
        "sssp",
        """WITH recursive path(Dst, min() AS Cost) AS
             (SELECT :source, 0) UNION
             (SELECT edge.Dst, path.Cost + edge.Cost FROM path, edge WHERE path.Dst = edge.Src)
           SELECT Dst, Cost FROM path""",
        """path({source}, mmin<0>) <- edge(_, _, _).
           path(Y, mmin<D>) <- path(X, C), edge(X, Y, E), D = C + E. query path(X, D).""",
        GRAPH,
        {"source": 1},
    ),
    Twin(
        "apsp",
        """WITH recursive path(Src, Dst, min() AS Cost) AS
             (SELECT Src, Dst, Cost FROM edge) UNION
             (SELECT a.Src, b.Dst, a.Cost + b.Cost FROM path a, path b WHERE a.Dst = b.Src)
           SELECT Src, Dst, Cost FROM path""",
        """path(X, Y, mmin<C>) <- edge(X, Y, C).
           path(X, Y, mmin<C>) <- path(X, Z, A), path(Z, Y, B), C = A + B. query path(X, Y, C).""",
        GRAPH,
    ),
    Twin(
        "cc_labels",
        COMPONENTS + "SELECT Src, CmpId FROM cc",
        CC_RULES + "query cc(X, I).",
        GRAPH,
    ),
    Twin(
        "cc_count",
        COMPONENTS + "SELECT count(distinct cc.CmpId) FROM cc",
        CC_RULES + "n(countd<I>) <- cc(_, I). query n(N).",
        GRAPH,
    ),
    Twin(
        "cc_joined",
        COMPONENTS
        + "SELECT cc.CmpId, sum(edge.Cost) FROM cc, edge WHERE cc.Src = edge.Src GROUP BY cc.CmpId",
        CC_RULES + "total(I, sum<C>) <- cc(X, I), edge(X, _, C). query total(I, S).",
        GRAPH,
    ),
    Twin(
        "count_paths",
        """WITH recursive cpaths(Dst, sum() AS Cnt) AS
             (SELECT 1, 1) UNION
             (SELECT edge.Dst, cpaths.Cnt FROM cpaths, edge WHERE cpaths.Dst = edge.Src)
           SELECT Dst, Cnt FROM cpaths""",
        "cpaths(1, 1). cpaths(Y, msum<C>) <- cpaths(X, C), edge(X, Y). query cpaths(X, C).",
        DAG,
    ),
    Twin(
        "count_all_paths",
        """WITH recursive cpaths(Src, Dst, sum() AS Cnt) AS
             (SELECT Src, Dst, 1 FROM edge) UNION
             (SELECT cpaths.Src, edge.Dst, cpaths.Cnt FROM cpaths, edge
              WHERE cpaths.Dst = edge.Src)
           SELECT Src, Dst, Cnt FROM cpaths""",
        """cpaths(X, Y, msum<1>) <- edge(X, Y).
           cpaths(X, Y, msum<C>) <- cpaths(X, Z, C), edge(Z, Y). query cpaths(X, Y, C).""",
        DAG,
    ),
    Twin(
        "delivery",
        """WITH recursive waitfor(Part, max() AS Days) AS
             (SELECT Part, Days FROM basic) UNION
             (SELECT assbl.Part, waitfor.Days FROM assbl, waitfor
              WHERE assbl.Spart = waitfor.Part)
           SELECT Part, Days FROM waitfor""",
        """waitfor(P, mmax<D>) <- basic(P, D).
           waitfor(P, mmax<D>) <- assbl(P, S), waitfor(S, D). query waitfor(P, D).""",
        ASSEMBLY,
    ),
    Twin(
        "management",
        """WITH recursive empCount(Mgr, count() AS Cnt) AS
             (SELECT report.Emp, 1 FROM report) UNION
             (SELECT report.Mgr, empCount.Cnt FROM empCount, report
              WHERE empCount.Mgr = report.Emp)
           SELECT Mgr, Cnt FROM empCount""",
        """empCount(E, msum<1>) <- report(E, _).
           empCount(M, msum<C>) <- empCount(E, C), report(E, M). query empCount(M, C).""",
        REPORTS,
    ),
    Twin(
        "mlm_bonus",
        """WITH recursive bonus(M, sum() AS B) AS
             (SELECT M, P * 0.1 FROM sales) UNION
             (SELECT sponsor.M1, bonus.B * 0.5 FROM bonus, sponsor WHERE bonus.M = sponsor.M2)
           SELECT M, B FROM bonus""",
        """bonus(M, msum<B>) <- sales(M, P), B = P * 0.1.
           bonus(M, msum<B>) <- bonus(N, C), sponsor(M, N), B = C * 0.5. query bonus(M, B).""",
        SALES,
    ),
    Twin(
        "interval_coalescing",
        """CREATE VIEW lstart(T) AS (
             SELECT a.S FROM inter a, inter b WHERE a.S <= b.E
             GROUP BY a.S HAVING a.S = min(b.S));
           WITH recursive coal(S, max() AS E) AS
             (SELECT lstart.T, inter.E FROM lstart, inter WHERE lstart.T = inter.S) UNION
             (SELECT coal.S, inter.E FROM coal, inter
              WHERE coal.S <= inter.S AND inter.S <= coal.E)
           SELECT S, E FROM coal""",
        """lowest(S, min<T>) <- inter(S, _), inter(T, E), S <= E.
           lstart(S) <- lowest(S, S).
           coal(S, mmax<E>) <- lstart(S), inter(S, E).
           coal(S, mmax<E>) <- coal(S, F), inter(T, E), S <= T, T <= F. query coal(S, E).""",
        INTERVALS,
    ),
    Twin(
        "party_attendance",
        """WITH recursive attend(Person) AS
             (SELECT OrgName FROM organizer) UNION
             (SELECT Name FROM cntfriends WHERE Ncount >= 3),
           recursive cntfriends(Name, count() AS Ncount) AS
             (SELECT friend.FName, friend.Pname FROM attend, friend
              WHERE attend.Person = friend.Pname)
           SELECT Person FROM attend""",
        """attend(X) <- organizer(X).
           attend(X) <- cntfriends(X, N), N >= 3.
           cntfriends(Y, mcount<X>) <- attend(X), friend(X, Y). query attend(X).""",
        PARTY,
    ),
    Twin(
        "company_control",
        """WITH recursive cshares(ByCom, OfCom, sum() AS Tot) AS
             (SELECT By, Of, Percent FROM shares) UNION
             (SELECT control.Com1, cshares.OfCom, cshares.Tot FROM control, cshares
              WHERE control.Com2 = cshares.ByCom),
           recursive control(Com1, Com2) AS
             (SELECT ByCom, OfCom FROM cshares WHERE Tot > 50)
           SELECT ByCom, OfCom, Tot FROM cshares""",
        """cshares(B, O, msum<P>) <- shares(B, O, P).
           cshares(A, O, msum<P>) <- control(A, B), cshares(B, O, P).
           control(A, B) <- cshares(A, B, T), T > 50. query cshares(B, O, T).""",
        SHARES,
    ),
    Twin(
        "pagerank",
        """CREATE VIEW node AS SELECT Src AS N FROM edge UNION SELECT Dst FROM edge;
           CREATE VIEW degree AS SELECT Src, count(*) AS D FROM edge GROUP BY Src;
           WITH recursive rank(Step, Node, sum() AS R) AS
             (SELECT 0, N, 1.0 FROM node) UNION
             (SELECT rank.Step + 1, rank.Node, 0.15 FROM rank WHERE rank.Step < 3) UNION
             (SELECT rank.Step + 1, edge.Dst, 0.85 * rank.R / degree.D
              FROM rank JOIN edge ON rank.Node = edge.Src JOIN degree ON degree.Src = edge.Src
              WHERE rank.Step < 3)
           SELECT Node, R FROM rank WHERE Step = 3""",
        """node(X) <- edge(X, _). node(X) <- edge(_, X).
           degree(X, count<Y>) <- edge(X, Y).
           rank(0, N, msum<1.0>) <- node(N).
           rank(T, N, msum<0.15>) <- rank(S, N, _), S < 3, T = S + 1.
           rank(T, Y, msum<P>) <- rank(S, X, R), edge(X, Y), degree(X, D), S < 3, T = S + 1,
                                  P = 0.85 * R / D.
           last(N, R) <- rank(3, N, R). query last(N, R).""",
        DAG,
    ),
)
