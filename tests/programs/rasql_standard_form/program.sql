CREATE TABLE arc(A integer, B integer);

WITH RECURSIVE tc(A, B) AS (
  SELECT A, B FROM arc
  UNION
  SELECT t.A, u.B FROM tc AS t JOIN tc AS u ON t.B = u.A
)
SELECT * FROM tc;
