CREATE TABLE likes(A integer, B integer);
CREATE TABLE rates(A integer, B integer, Stars integer);

-- B is NULL for one of the pairs that a row stands for, and nobody looks at it.
CREATE VIEW holed AS SELECT A, nullif(B, 2) AS B FROM likes;

WITH recursive v(A, sum() AS S, count() AS N) AS
    (SELECT x.A, x.A, x.A FROM likes AS x, holed AS y WHERE x.A = y.A + 0 OR x.B = y.A + 1)
SELECT A, S, N FROM v;

WITH recursive v(A, count() AS N) AS
    (SELECT A, count(*) FROM likes GROUP BY A)
SELECT A, N FROM v;

WITH recursive v(A, count() AS N, max() AS M) AS
    (SELECT l.A, 5, l.B FROM likes l LEFT JOIN rates r ON l.B = r.A)
  UNION
    (SELECT A, Stars, 0 FROM rates)
SELECT A, N, M FROM v;

-- Before the recursion and within it; `times` is a name like any other.
WITH recursive v(A, count() AS N) AS
    (SELECT * FROM (SELECT A FROM likes) AS l LEFT JOIN (SELECT A AS times FROM likes) AS r
     ON l.A = r.times)
  UNION
    (SELECT l.B, v.N FROM v, likes AS l WHERE l.A = v.A AND l.A < l.B)
SELECT A, N FROM v;
