-- Every construct of a recursive view. The same text goes to DuckDB, whose UNION inside recursion
-- works with sets too. The tables are those of test_constructs.py.

-- case: comma joins
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src
) SELECT * FROM tc;

-- case: join on
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge
  UNION
  SELECT tc.Src, e.Dst FROM tc JOIN edge AS e ON tc.Dst = e.Src
) SELECT * FROM tc;

-- case: join using
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge
  UNION
  SELECT x.Src, tc.Dst FROM tc JOIN (SELECT Src, Dst AS Mid FROM edge) x ON x.Mid = tc.Src
) SELECT * FROM tc;

-- case: cross join
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge
  UNION
  SELECT tc.Src, e.Dst FROM tc CROSS JOIN edge e WHERE e.Src = tc.Dst
) SELECT * FROM tc;

-- case: self join of tables
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT a.Src, b.Dst FROM edge a, edge b WHERE a.Dst = b.Src
  UNION
  SELECT tc.Src, b.Dst FROM tc, edge a, edge b WHERE tc.Dst = a.Src AND a.Dst = b.Src
) SELECT * FROM tc;

-- case: star
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge
  UNION
  SELECT * FROM tc WHERE Src > 0
) SELECT * FROM tc;

-- case: table star
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge
  UNION
  SELECT t.* FROM tc AS t, node WHERE node.Id = t.Src
) SELECT * FROM tc;

-- case: comparison
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge WHERE Cost < 3
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src AND edge.Cost <> 2.0
) SELECT * FROM tc;

-- case: or
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge WHERE Src = 1 OR Dst = 8
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src AND (edge.Kind = 'a' OR edge.Cost > 2)
) SELECT * FROM tc;

-- case: not
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge WHERE NOT (Src = 1 OR Dst = 8)
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src AND NOT edge.Kind = 'a'
) SELECT * FROM tc;

-- case: not and
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src AND NOT (edge.Kind = 'a' AND tc.Src > 1)
) SELECT * FROM tc;

-- case: in
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge WHERE Kind IN ('a', 'b')
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src AND tc.Src IN (1, 2, 3)
) SELECT * FROM tc;

-- case: in doubles
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge WHERE Cost IN (4, 2.5, 7)
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src
) SELECT * FROM tc;

-- case: not in a query
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge WHERE Dst NOT IN (SELECT e.Src FROM edge AS e WHERE e.Cost > 4)
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src
    AND tc.Src NOT IN (SELECT Dst FROM edge AS e WHERE e.Dst > edge.Dst)
) SELECT * FROM tc;

-- case: not in
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge WHERE Kind NOT IN ('a', 'z')
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src AND edge.Dst NOT IN (7, 8)
) SELECT * FROM tc;

-- case: in expressions
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge WHERE Dst IN (Src + 1, Src + 4)
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src
) SELECT * FROM tc;

-- case: between
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge WHERE Src BETWEEN 1 AND 3
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src AND edge.Dst NOT BETWEEN 3 AND 4
) SELECT * FROM tc;

-- case: boolean column
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge WHERE Open
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src AND NOT edge.Open
) SELECT * FROM tc;

-- case: exists
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src AND EXISTS (SELECT 1 FROM node WHERE node.Id = edge.Dst AND node.Id < 6)
) SELECT * FROM tc;

-- case: not exists
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src AND NOT EXISTS (SELECT 1 FROM closed WHERE closed.Id = edge.Dst)
) SELECT * FROM tc;

-- case: not exists unequal
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src AND NOT EXISTS (SELECT 1 FROM closed c WHERE c.Id < edge.Dst AND c.Id > edge.Src)
) SELECT * FROM tc;

-- case: exists twice
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge e WHERE EXISTS (SELECT * FROM edge f WHERE f.Src = e.Dst AND EXISTS (SELECT 1 FROM node n WHERE n.Id = f.Dst AND n.Id <> e.Src))
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src
) SELECT * FROM tc;

-- case: exists uncorrelated
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge WHERE EXISTS (SELECT 1 FROM closed)
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src
) SELECT * FROM tc;

-- case: exists or
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge WHERE Src = 1 OR EXISTS (SELECT 1 FROM closed WHERE closed.Id = edge.Dst)
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src
) SELECT * FROM tc;

-- case: in subquery
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge WHERE Dst IN (SELECT Id FROM node WHERE Label > 'Z')
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src
) SELECT * FROM tc;

-- case: exists on recursion
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge WHERE Src = 1
  UNION
  SELECT edge.Src, edge.Dst FROM edge WHERE Src IN (SELECT Dst FROM tc)
) SELECT * FROM tc;

-- case: arithmetic
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst * 2 - 1 FROM edge
  UNION
  SELECT tc.Src, edge.Dst + tc.Dst % 3 FROM tc, edge WHERE tc.Dst = edge.Src AND tc.Dst + edge.Dst < 12
) SELECT * FROM tc;

-- case: case
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, CASE WHEN Kind = 'a' THEN Dst WHEN Kind = 'b' OR Cost > 2 THEN 0 ELSE -1 END FROM edge
  UNION
  SELECT tc.Src, CASE tc.Dst WHEN 2 THEN 3 ELSE edge.Dst END FROM tc, edge WHERE tc.Dst = edge.Src
) SELECT * FROM tc;

-- case: greatest
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, greatest(Src, Dst, 4) FROM edge
  UNION
  SELECT tc.Src, least(tc.Dst, edge.Dst) FROM tc, edge WHERE tc.Dst = edge.Src
) SELECT * FROM tc;

-- case: cast
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, CAST(Src AS DOUBLE) / 2 FROM edge
  UNION
  SELECT tc.Src, tc.Dst FROM tc
) SELECT * FROM tc;

-- case: like
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge, node WHERE Id = Src AND Label LIKE 'A%'
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src
) SELECT * FROM tc;

-- case: functions of a table
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge JOIN node ON Id = Src WHERE upper(Label) < 'E'
  UNION
  SELECT tc.Src, length(n.Label) + edge.Dst FROM tc, edge, node n WHERE tc.Dst = edge.Src AND n.Id = edge.Dst
) SELECT * FROM tc;

-- case: coalesce
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT coalesce(A, 0), coalesce(B, 0) FROM holes
  UNION
  SELECT tc.Dst, tc.Src FROM tc
) SELECT * FROM tc;

-- case: null in a join
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT A, B FROM holes WHERE B IS NOT NULL AND A IS NOT NULL
  UNION
  SELECT tc.Src, coalesce(h.B, 99) FROM tc, holes h WHERE tc.Dst = h.A
) SELECT * FROM tc;

-- case: null decides
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT A, 1 FROM holes WHERE B > 0 AND A > 0
  UNION
  SELECT tc.Src, h.B FROM tc, holes h WHERE h.A = tc.Src AND h.B < 9
) SELECT * FROM tc;

-- case: null in or
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge, holes WHERE (A = Src OR B = Src) AND A > 0
  UNION
  SELECT Dst, Src FROM tc
) SELECT * FROM tc;

-- case: is null
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT A, 7 FROM holes WHERE C IS NULL AND A IS NOT NULL
  UNION
  SELECT Dst, Src FROM tc
) SELECT * FROM tc;

-- case: not exists with null
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge WHERE NOT EXISTS (SELECT 1 FROM holes WHERE holes.B = edge.Src)
  UNION
  SELECT Dst, Src FROM tc
) SELECT * FROM tc;

-- case: base with group by
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, max(Dst) FROM edge GROUP BY Src HAVING count(*) > 1
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src
) SELECT * FROM tc;

-- case: base with outer join
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT e.Src, coalesce(f.Dst, 0) FROM edge e LEFT JOIN edge f ON e.Dst = f.Src
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src
) SELECT * FROM tc;

-- case: base with window
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, row_number() OVER (ORDER BY Src, Dst) FROM edge
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src
) SELECT * FROM tc;

-- case: base with limit
WITH RECURSIVE tc(Src, Dst) AS (
  (SELECT Src, Dst FROM edge ORDER BY Src, Dst LIMIT 2)
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src
) SELECT * FROM tc;

-- case: subquery in from
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge
  UNION
  SELECT tc.Src, m.D FROM tc, (SELECT Src AS S, max(Dst) AS D FROM edge GROUP BY Src) AS m WHERE tc.Dst = m.S
) SELECT * FROM tc;

-- case: values
WITH RECURSIVE tc(Src, Dst) AS (
  VALUES (1, 2), (5, 6)
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src
) SELECT * FROM tc;

-- case: constants
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT 1, -2
  UNION
  SELECT 3, 2 + 1
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src
) SELECT * FROM tc;

-- case: whole numbers meet doubles
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Cost FROM edge
  UNION
  SELECT edge.Src, tc.Dst FROM tc, edge WHERE tc.Dst = edge.Dst
) SELECT * FROM tc;

-- case: impossible
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src AND 1 = 2 AND FALSE
) SELECT * FROM tc;

-- case: three branches
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM edge WHERE Src = 1
  UNION
  SELECT Dst, Src FROM edge WHERE Src = 5
  UNION
  SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src
) SELECT * FROM tc;

-- case: text made by the recursion
WITH RECURSIVE p(Dst, Path) AS (
  SELECT 1, 'p'
  UNION
  SELECT e.Dst, p.Path || '>' || upper(n.Label) FROM p, edge e, node n
  WHERE p.Dst = e.Src AND n.Id = e.Dst AND length(p.Path) < 9
) SELECT * FROM p;

-- case: functions of text made by the recursion
WITH RECURSIVE p(Dst, Path, Start) AS (
  SELECT Id, Label, lower(Label) FROM node
  UNION
  SELECT e.Dst, substring(concat(p.Path, e.Kind), 2, 3), replace(trim(p.Path), 'b', 'BB')
  FROM p, edge e
  WHERE p.Dst = e.Src AND length(p.Start) < 4 AND p.Path <> e.Kind AND upper(p.Path) < 'CC'
) SELECT * FROM p;

-- case: text chosen by the recursion
WITH RECURSIVE p(Dst, Path) AS (
  SELECT Id, Label FROM node
  UNION
  SELECT e.Dst, CASE WHEN p.Path > 'b' THEN upper(p.Path) ELSE e.Kind END FROM p, edge e
  WHERE p.Dst = e.Src
) SELECT * FROM p;
