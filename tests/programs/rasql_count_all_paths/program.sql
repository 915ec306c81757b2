CREATE TABLE arc(A integer, B integer);

WITH recursive paths(X, Y, sum() AS N) AS
    (SELECT A, B, 1 FROM arc)
  UNION
    (SELECT paths.X, arc.B, paths.N FROM paths, arc WHERE paths.Y = arc.A)
SELECT X, Y, N FROM paths;
