CREATE TABLE road(A integer, B integer, W integer);
CREATE TABLE bound(Name string, V integer);

WITH recursive tc(Src, Dst) AS
    (SELECT A, B FROM road)
  UNION
    (SELECT tc.Src, road.B FROM tc, road
     WHERE tc.Dst = road.A AND road.B <= (SELECT max(V) FROM bound WHERE Name = 'hops'))
SELECT Src, Dst FROM tc;

WITH recursive sp(Dst, min() AS Cost) AS
    (SELECT 1, 0)
  UNION
    (SELECT road.B, sp.Cost + road.W * (SELECT V FROM bound WHERE Name = 'toll') FROM sp, road
     WHERE sp.Dst = road.A)
SELECT Dst, Cost FROM sp;

WITH recursive tc(Src, Dst) AS
    (SELECT A, B FROM road)
  UNION
    (SELECT tc.Src, road.B FROM tc, road
     WHERE tc.Dst = road.A AND road.B < (SELECT min(V) FROM bound WHERE Name = 'nobody'))
SELECT Src, Dst FROM tc;

WITH recursive near(N, count() AS Ways) AS
    (SELECT (SELECT min(A) FROM road), 1)
  UNION
    (SELECT road.B, near.Ways FROM near, road
     WHERE near.N = road.A AND road.B < (SELECT count(*) FROM road) + 1)
SELECT N, Ways FROM near;
