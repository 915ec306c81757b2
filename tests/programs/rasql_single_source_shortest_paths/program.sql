CREATE TABLE arc(A integer, B integer, Cost integer);

WITH recursive sp(Dst, min() AS Cost) AS
    (SELECT {start}, 0)
  UNION
    (SELECT arc.B, sp.Cost + arc.Cost FROM sp, arc WHERE sp.Dst = arc.A)
SELECT Dst, Cost FROM sp;
