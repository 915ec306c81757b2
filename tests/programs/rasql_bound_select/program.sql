CREATE TABLE road(A integer, B integer, W integer);
CREATE TABLE town(N integer, Name string);

WITH recursive tc(Src, Dst) AS
    (SELECT A, B FROM road)
  UNION
    (SELECT tc.Src, road.B FROM tc, road WHERE tc.Dst = road.A)
SELECT Dst FROM tc WHERE Src = 1;

WITH recursive tc(Src, Dst) AS
    (SELECT A, B FROM road)
  UNION
    (SELECT tc.Src, road.B FROM tc, road WHERE tc.Dst = road.A)
SELECT t.Src FROM tc AS t WHERE 4 = t.Dst AND t.Src <> 3;

WITH recursive tc(Src, Dst) AS
    (SELECT A, B FROM road)
  UNION
    (SELECT road.A, tc.Dst FROM tc, road WHERE road.B = tc.Src)
SELECT Src, Dst FROM tc WHERE Src IN (2, 5)
  UNION
SELECT Src, Dst FROM tc WHERE Src = 7;

WITH recursive way(F, T) AS
    (SELECT f.Name, t.Name FROM road, town f, town t WHERE road.A = f.N AND road.B = t.N)
  UNION
    (SELECT a.F, b.T FROM way a, way b WHERE a.T = b.F)
SELECT T FROM way WHERE F = 'Carthag';

WITH recursive sp(Src, Dst, min() AS Cost) AS
    (SELECT A, B, W FROM road)
  UNION
    (SELECT sp.Src, road.B, sp.Cost + road.W FROM sp, road WHERE sp.Dst = road.A)
SELECT Dst, Cost FROM sp WHERE Src = 1;

WITH recursive tc(Src, Dst) AS
    (SELECT A, B FROM road)
  UNION
    (SELECT tc.Src, road.B FROM tc, road WHERE tc.Dst = road.A)
SELECT town.Name, coalesce(tc.Dst, 0) AS D FROM town LEFT JOIN tc ON tc.Src = town.N WHERE tc.Src = 7 OR town.N = 4;
