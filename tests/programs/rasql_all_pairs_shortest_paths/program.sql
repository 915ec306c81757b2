CREATE TABLE arc(A integer, B integer, Cost integer);

WITH recursive path(A, B, min() AS Cost) AS
    (SELECT A, B, Cost FROM arc)
  UNION
    (SELECT p.A, q.B, p.Cost + q.Cost FROM path p, path q WHERE p.B = q.A)
SELECT A, B, Cost FROM path;
