CREATE TABLE arc(A integer, B integer);

WITH recursive paths(Y, sum() AS N) AS
    (SELECT 1, 1)
  UNION
    (SELECT arc.B, paths.N FROM paths, arc WHERE paths.Y = arc.A)
SELECT Y, N FROM paths;
