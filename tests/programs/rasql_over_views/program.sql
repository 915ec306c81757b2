CREATE TABLE road(A integer, B integer);
CREATE TABLE town(N integer, Name string);

WITH recursive tc(Src, Dst) AS
    (SELECT A, B FROM road)
  UNION
    (SELECT tc.Src, road.B FROM tc, road WHERE tc.Dst = road.A)
SELECT count(*), sum(Dst), avg(Src), min(Dst), max(Src), count(DISTINCT Dst) FROM tc;

WITH recursive tc(Src, Dst) AS
    (SELECT A, B FROM road)
  UNION
    (SELECT tc.Src, road.B FROM tc, road WHERE tc.Dst = road.A)
SELECT count(*), coalesce(sum(Dst), -1), coalesce(avg(Src), -1.0), count(DISTINCT Dst) FROM tc WHERE Dst - Src > 100;

WITH recursive tc(Src, Dst) AS
    (SELECT A, B FROM road)
  UNION
    (SELECT tc.Src, road.B FROM tc, road WHERE tc.Dst = road.A)
SELECT Src, count(*), sum(Dst), avg(Dst), count(DISTINCT Dst) FROM tc
WHERE Src < Dst GROUP BY Src HAVING count(*) > 1 ORDER BY 2 DESC, Src LIMIT 3;

WITH recursive tc(Src, Dst) AS
    (SELECT A, B FROM road)
  UNION
    (SELECT tc.Src, road.B FROM tc, road WHERE tc.Dst = road.A)
SELECT Name, count(*), count(tc.Dst), avg(tc.Dst), max(tc.Dst)
FROM town LEFT JOIN tc ON tc.Src = town.N GROUP BY Name;

WITH recursive tc(Src, Dst) AS
    (SELECT A, B FROM road)
  UNION
    (SELECT tc.Src, road.B FROM tc, road WHERE tc.Dst = road.A),
ends(D) AS (SELECT DISTINCT Dst FROM tc WHERE Dst > 2)
SELECT D, (SELECT count(*) FROM tc WHERE tc.Dst = ends.D) FROM ends
WHERE D NOT IN (SELECT N FROM town) OR EXISTS (SELECT 1 FROM tc WHERE tc.Src = D);
