-- Shortest paths from one place, in SQL. Spark's own WITH RECURSIVE has no aggregates inside, and
-- does not end on roads that lead back.
--
--   caladan run examples/sql/shortest_paths.sql --facts examples/sql --param start=ulm

CREATE TABLE road(Src string, Dst string, Km integer);

WITH recursive path(Place, min() AS Km) AS
    (SELECT {start}, 0)
  UNION
    (SELECT road.Dst, path.Km + road.Km FROM path, road WHERE path.Place = road.Src)
SELECT Place, Km FROM path ORDER BY Km;
