"""Every mistake a user can make, as a command line with its files.

A case has the files it needs, the arguments of `caladan`, and the code it must end with. What is
printed stands in told.txt, by the case's name. Cases run on the reference engine; those marked
`every_engine` run on the others too and must say the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ARC = "database({arc(A: integer, B: integer)}).\n"
TC = ARC + "tc(A, B) <- arc(A, B).\ntc(A, B) <- tc(A, C), arc(C, B).\nquery tc(A, B).\n"
EDGES = "1,2\n2,3\n3,4\n"


@dataclass(frozen=True)
class Case:
    """A mistake and the code it is told by."""

    name: str
    code: str
    program: str
    data: dict[str, bytes] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    every_engine: bool = False


def _arc(text: str | bytes) -> dict[str, bytes]:
    return {"arc.csv": text.encode() if isinstance(text, str) else text}


_DATA = ("--data", "arc=arc.csv")

TABLE = "CREATE TABLE arc(A integer, B integer);\n"


def _closure(step: str, base: str = "SELECT A, B FROM arc", head: str = "tc(A, B)") -> str:
    return f"{TABLE}WITH recursive {head} AS\n  ({base}) UNION\n  ({step})\nSELECT * FROM tc\n"


CASES = (
    # the text
    Case("syntax", "C001", ARC + "tc(A, B) <- arc(A B).\nquery tc(A, B)."),
    Case("several syntax errors", "C001", "p(X) :- q(X).\nr(X) <- s(X), != 3.\n"),
    Case("unterminated text", "C002", "p('abc).\n"),
    Case("unterminated comment", "C002", "p(1). /* p(2).\n"),
    Case("number out of range", "C003", "p(9223372036854775808).\n"),
    Case("unknown type", "C004", "database({arc(A: intger)}).\nquery arc(A).\n"),
    Case("language not recognised", "C005", "hello there\n"),
    Case("include without quotes", "C001", "include rules.dl.\n"),
    Case("mistake in an included file", "C001", ARC + "include 'rules.dl'.\nquery tc(A, B).", data={"rules.dl": b"tc(A, B) <- arc(A B).\n"}),
    # the meaning
    Case("unknown relation", "C010", ARC + "tc(A, B) <- acr(A, B).\nquery tc(A, B)."),
    Case("no such column", "C011", ARC + "p(A) <- arc(A: A, C: 1), q(A).\nq(A) <- arc(A: A, A: B).\nquery p(A)."),
    Case("head without a column", "C011", ARC + "p(a: A, b: B) <- arc(A: A, B: B).\np(a: A) <- arc(A: A).\nquery p(A)."),
    Case("wrong arity", "C011", ARC + "p(A) <- arc(A).\nquery p(A)."),
    Case("type conflict", "C012", "database({p(A: string), q(B: integer)}).\nr(X) <- p(X), q(X)."),
    Case("unsafe variable", "C013", ARC + "p(A, C) <- arc(A, B).\nquery p(A, B)."),
    Case("negative cycle", "C014", ARC + "win(X) <- arc(X, Y), ~win(Y).\nquery win(X)."),
    Case("aggregate in a cycle", "C014", ARC + "d(1, 0).\nd(Y, min<D>) <- d(X, E), arc(X, Y), D = E + 1."),
    Case("aggregate in a fact", "C015", "best(1, mmin<0>).\nbest(Y, mmin<D>) <- best(X, C), D = C + 1, Y = X.\nquery best(X, D)."),
    Case("aggregate mixed", "C015", ARC + "p(A, count<B> + B) <- arc(A, B).\nquery p(A, N)."),
    Case("aggregates disagree", "C016", ARC + "p(A, mmin<B>) <- arc(A, B).\np(A, mmax<B>) <- arc(A, B)."),
    Case("declared twice", "C017", ARC + "database({arc(A: string)})."),
    Case("constant does not fit", "C018", "database({p(A: byte)}).\nq(X) <- p(X), p(300)."),
    Case("unknown parameter", "C020", ARC + "p(B) <- arc({start}, B).\nquery p(B).", arguments=("--param", "strat=1")),
    Case("query on nothing", "C021", ARC + "query ark(A, B)."),
    Case("limit in a variable", "C022", ARC + "p(A) <- arc(A, B), limit(B)."),
    Case("goal with arithmetic", "C023", ARC + "query arc(A + 1, B)."),
    Case("too many ways", "C024", ARC + "p(A) <- arc(A, B),\n  " + ",\n  ".join(f"if(A > {i} then arc(B, {i}) else ~arc({i}, B))" for i in range(20)) + ".\nquery p(A)."),
    Case("too many alternatives", "C024", ARC + "p(A) <- arc(A, B),\n  " + ",\n  ".join(f"(arc(B, {i}), arc({i}, A) ; ~arc({i}, B))" for i in range(12)) + ".\nquery p(A)."),
    Case("a sum over alternatives", "C015", ARC + "s(A, msum<1>) <- arc(A, B).\ns(A, msum<N>) <- s(B, N), (arc(A, B), arc(B, A) ; arc(A, B), A > 1).\nquery s(A, N)."),
    # data
    Case("missing file", "C030", TC, arguments=_DATA, every_engine=True),
    Case("too few columns", "C031", TC, _arc("1,2\n3\n4,5\n"), _DATA, every_engine=True),
    Case("too many columns", "C031", TC, _arc("1,2\n3,4,5\n"), _DATA, every_engine=True),
    Case("not a number", "C032", TC, _arc("1,2\n2,x\n3,4\n5,y\n"), _DATA, every_engine=True),
    Case("out of range", "C032", TC, _arc("1,2\n2,3000000000\n"), _DATA, every_engine=True),
    Case("not utf-8", "C033", "database({p(A: string)}).\nquery p(X).", {"p.csv": b"ab\nc\xe9d\n"}, ("--data", "p=p.csv"), every_engine=True),
    Case("no data", "C034", TC),
    Case("unknown format", "C035", TC, {"arc.xlsx": b"nothing"}, ("--data", "arc=arc.xlsx")),
    Case("broken parquet", "C035", TC, {"arc.parquet": b"this is not parquet"}, ("--data", "arc=arc.parquet"), every_engine=True),
    Case("null where it is forbidden", "C036", TC.replace("integer", "integer!"), {"arc.json": b'{"A": 1, "B": 2}\n{"A": 2, "B": null}\n'}, ("--data", "arc=arc.json"), every_engine=True),
    Case("no value where it is forbidden", "C036", TC.replace("integer", "integer!"), _arc("1,2\n,3\n4,\n"), _DATA, every_engine=True),
    Case("null in an atom", "C025", ARC + "p(A) <- arc(A, null).\nquery p(A)."),
    Case("null in a comparison", "C025", ARC + "p(A) <- arc(A, B), B ~= null.\nquery p(A)."),
    Case("rows of rules", "C026", ARC + "p(A) <- arc(A, _).\nq(count<_>) <- p[R](A).\nquery q(N)."),
    Case("rows in a goal", "C026", ARC + "query arc[R](A, B)."),
    Case("a header over numbers", "C032", TC, _arc("Source,Target\n1,2\n"), _DATA, every_engine=True),
    Case("nearly the names", "C035", "database({arc(Source: string, Target: string)}).\nquery arc(X, Y).", _arc(" SOURCE,target\nx,y\n"), _DATA, every_engine=True),
    Case("a header of nobody knows what", "C035", "query arc(X, Y).", _arc("source,weight\nx,1\ny,2\n"), _DATA, every_engine=True),
    Case("several kinds of files", "C035", TC, {"d/a.csv": b"1,2\n", "d/b.tsv": b"1\t2\n"}, ("--data", "arc=d")),
    Case("a name twice", "C031", TC, _arc("A,A,B\n1,2,3\n"), (*_DATA, "--header"), every_engine=True),
    Case("cannot write", "C037", TC, {**_arc(EDGES), "out": b"a file"}, (*_DATA, "--out", "out")),
    # running
    Case("division by zero", "C040", ARC + "p(C) <- arc(A, B), C = A / (B - 3).\nquery p(C).", _arc(EDGES), _DATA, every_engine=True),
    Case("overflow", "C041", ARC + "p(C) <- arc(A, _), C = A * 9223372036854775807.\nquery p(C).", _arc(EDGES), _DATA, every_engine=True),
    Case("sum overflow", "C041", "p(1, 9223372036854775807). p(2, 9223372036854775807).\nq(sum<X>) <- p(_, X).\nquery q(X).", every_engine=True),
    Case("double overflow", "C041", ARC + "p(C) <- arc(A, B), C = A * 1.7e308 * B.\nquery p(C).", _arc(EDGES), _DATA, every_engine=True),
    Case("double quotient overflow", "C041", ARC + "p(C) <- arc(A, _), C = 1.7e308 / (A * 1e-10).\nquery p(C).", _arc(EDGES), _DATA, every_engine=True),
    Case("sum of doubles overflow", "C041", "p(1, 1.7e308). p(2, 1.7e308).\nq(sum<X>) <- p(_, X).\nquery q(X).", every_engine=True),
    Case("mean of doubles overflow", "C041", "p(1, 1.7e308). p(2, 1.7e308).\nq(avg<X>) <- p(_, X).\nquery q(X).", every_engine=True),
    Case("recursive sum overflow", "C041", "bom(a, b, 1e60). bom(b, a, 1e60).\nt(a, msum<1.0>) <- bom(a, _, _).\nt(P, msum<C>) <- bom(P, S, Q), t(S, D), C = if(D > 1.0 then Q * D else Q).\nquery t(P, C).", every_engine=True),
    Case("round limit", "C042", "n(1).\nn(Y) <- n(X), Y = X + 1.\nquery n(X).", arguments=("--max-rounds", "5", "--format", "csv"), every_engine=True),
    Case("fact limit", "C042", "n(1).\nn(Y) <- n(X), Y = X + 1.\nquery n(X).", arguments=("--max-facts", "20", "--format", "csv"), every_engine=True),
    Case("sums without end", "C042", "bom(a, a, 1).\nt(P, msum<1>) <- bom(P, _, _).\nt(P, msum<(S, Q * C)>) <- bom(P, S, Q), t(S, C).\nquery t(P, C).", arguments=("--format", "csv"), every_engine=True),
    Case("sums of doubles without end", "C042", "bom(a, a, 1.0).\nt(P, msum<1.5>) <- bom(P, _, _).\nt(P, msum<C>) <- bom(P, S, Q), t(S, D), C = Q * D.\nquery t(P, C).", arguments=("--format", "csv"), every_engine=True),
    Case("sums that go to and fro", "C042", "bom(a, a, -1.0).\nt(P, msum<1.5>) <- bom(P, _, _).\nt(P, msum<C>) <- bom(P, S, Q), t(S, D), C = Q * D.\nquery t(P, C).", arguments=("--format", "csv"), every_engine=True),
    Case("sum that loses a part", "C047", "bom(a, b). bom(b, c).\ncost(a, 100). cost(b, 10). cost(c, -9).\nt(P, msum<C>) <- cost(P, C).\nt(P, msum<(S, C)>) <- bom(P, S), t(S, C), C * C > 9.\nquery t(P, C).", every_engine=True),
    Case("expectation", "C046", TC.partition("query")[0] + "arc(1, 2). arc(2, 3).\nexpect tc(1, X) = {(1, 2), (1, 4)}.\nexpect no tc(3, 1).", arguments=("test",), every_engine=True),
    Case("include of a file that is not there", "C030", ARC + "include 'rules.dl'.\nquery arc(A, B)."),
    Case("expectation of another width", "C011", "p(1, 2).\nexpect p(X, Y) = {(1)}."),
    # usage
    Case("unknown stage", "C050", TC, arguments=("explain", "--stage", "nonsense")),
    Case("a program that is not there", "C030", "", arguments=("no.dl",)),
    Case("a header of no data", "C050", TC, _arc(EDGES), (*_DATA, "--header-of", "ark")),
    Case("not yet", "C051", ".decl p(x: number)\np(1).\n.output p\n"),
    Case("a later time in a batch", "C074", "p(1).\n@next q(X) <- p(X).\nquery p(X)."),
    Case("no time", "C001", "p(1).\n@later q(X) <- p(X).\nquery p(X)."),
    # SQL
    Case("sql syntax", "C001", "WITH recursive tc(A, min(B) AS C) AS (SELECT 1, 2) SELECT 1"),
    Case("sql unterminated", "C002", "SELECT 'abc FROM arc"),
    Case("sql unknown type", "C004", "CREATE TABLE arc(A integr, B integer); SELECT * FROM arc"),
    Case("sql unknown table", "C010", _closure("SELECT tc.A, ark.B FROM tc, ark WHERE tc.B = ark.A"), _arc(EDGES), _DATA),
    Case("sql other number of columns", "C011", _closure("SELECT tc.A FROM tc"), _arc(EDGES), _DATA),
    Case("sql type conflict", "C012", _closure("SELECT tc.A, 'x' FROM tc"), _arc(EDGES), _DATA),
    Case("sql negation in recursion", "C014", _closure("SELECT arc.B, arc.A FROM arc WHERE NOT EXISTS (SELECT 1 FROM tc WHERE tc.A = arc.B)"), _arc(EDGES), _DATA),
    Case("sql parameter", "C020", TABLE + "SELECT * FROM arc WHERE A = {start}", _arc(EDGES), (*_DATA, "--param", "strat=1")),
    Case("sql no data", "C034", TABLE + "SELECT * FROM arc"),
    Case("sql division by zero", "C040", TABLE + "SELECT A / (B - 3) FROM arc", _arc(EDGES), _DATA, every_engine=True),
    Case("union all", "C060", _closure("SELECT tc.A, arc.B FROM tc, arc WHERE tc.B = arc.A").replace("UNION", "UNION ALL"), _arc(EDGES), _DATA),
    Case("group by in recursion", "C060", _closure("SELECT tc.A, max(arc.B) FROM tc, arc WHERE tc.B = arc.A GROUP BY tc.A"), _arc(EDGES), _DATA),
    Case("outer join in recursion", "C060", _closure("SELECT tc.A, arc.B FROM tc LEFT JOIN arc ON tc.B = arc.A"), _arc(EDGES), _DATA),
    Case("like in recursion", "C060", _closure("SELECT tc.A, tc.B FROM tc WHERE tc.A LIKE 'x%'"), _arc(EDGES), _DATA),
    Case("order in recursion", "C060", _closure("SELECT tc.A, arc.B FROM tc, arc WHERE tc.B = arc.A ORDER BY 1"), _arc(EDGES), _DATA),
    Case("window in recursion", "C060", _closure("SELECT tc.A, row_number() OVER (ORDER BY tc.B) FROM tc"), _arc(EDGES), _DATA),
    Case("not in with NULL", "C060", _closure("SELECT tc.A, tc.B FROM tc WHERE tc.A NOT IN (SELECT A FROM some)").replace("WITH", "CREATE VIEW some AS SELECT nullif(A, 1) AS A FROM arc;\nWITH"), _arc(EDGES), _DATA),
    Case("null literal in recursion", "C060", _closure("SELECT tc.A, NULL FROM tc"), _arc(EDGES), _DATA),
    Case("case without else", "C060", _closure("SELECT tc.A, CASE WHEN tc.B > 1 THEN 1 END FROM tc"), _arc(EDGES), _DATA),
    Case("no statement", "C060", "INSERT INTO arc VALUES (1, 2)"),
    Case("sql engine refuses", "C062", TABLE + "SELECT A, C FROM arc", _arc(EDGES), _DATA),
    Case("unknown column", "C063", _closure("SELECT tc.A, arc.C FROM tc, arc WHERE tc.B = arc.A"), _arc(EDGES), _DATA),
    Case("ambiguous column", "C063", _closure("SELECT A, arc.B FROM tc, arc WHERE tc.B = arc.A"), _arc(EDGES), _DATA),
    Case("null in recursion", "C064", TABLE + "CREATE VIEW v AS SELECT A, nullif(B, 3) AS B FROM arc;\nWITH recursive tc(A, B) AS\n  (SELECT A, B FROM v) UNION\n  (SELECT tc.B, tc.A FROM tc)\nSELECT * FROM tc\n", _arc(EDGES), _DATA),
    Case("pair in an answer", "C065", TABLE + "SELECT (A, B) AS pair FROM arc", _arc(EDGES), _DATA),
    Case("function of Spark alone", "C062", TABLE + "SELECT A, hash(B) AS h FROM arc", _arc(EDGES), _DATA),
    # warnings
    Case("rows set aside", "W108", TC, _arc("1,2\n2,x\n3,4\n"), (*_DATA, "--permissive", "--format", "csv"), every_engine=True),
    Case("equal rows in a sum", "W109", ARC + "p(A, sum<B>) <- arc(A, B).\nquery p(A, B).", _arc("1,2\n1,2\n1,3\n"), (*_DATA, "--format", "csv"), every_engine=True),
    Case("a header of text", "W110", "query arc(X, Y).", _arc("name,city\nann,rome\nbob,paris\n"), (*_DATA, "--format", "csv"), every_engine=True),
    Case("may not terminate", "W101", "n(1).\nn(Y) <- n(X), Y = X + 1.\nquery n(X).", arguments=("check",)),
    Case("may not be monotone", "W102", ARC + "d(1, 0).\nd(Y, mmin<E>) <- d(X, D), arc(X, Y), E = D + 1, D > 9.", arguments=("check",)),
    Case("aggregate at every step", "W104", _closure("SELECT arc.B, 9 - tc.B FROM tc, arc WHERE tc.A = arc.A", head="tc(A, min() AS B)"), arguments=("check",)),
    Case("variable that occurs once", "W105", ARC + "p(A) <- arc(A, B), arc(_, _C).\nquery p(A).", arguments=("check",)),
    Case("spelt like a constant", "W106", "age('Ann', 7).\np(N) <- age(Ann, N), age(Ann, _).\nquery p(N)."),
    Case("no goal needs it", "W107", ARC + "p(A) <- arc(A, _).\nq(A) <- p(A).\nquery p(A).", _arc(EDGES), _DATA),
    Case("never has facts", "W103", ARC + "p(X) <- p(X), arc(X, _).", arguments=("check",)),
)  # fmt: skip
