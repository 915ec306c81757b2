CREATE TABLE road(A integer, B integer, Name string);

WITH recursive way(N, min() AS T) AS
    (SELECT 1, '1')
  UNION
    (SELECT road.B, concat(way.T, '-', road.Name) FROM way, road WHERE way.N = road.A)
SELECT N, T FROM way;

WITH recursive way(N, K, max() AS T) AS
    (SELECT 1, 0, 'é')
  UNION
    (SELECT road.B, way.K + 1, concat(way.T, upper(road.Name)) FROM way, road
     WHERE way.N = road.A AND way.K < 3)
SELECT N, K, T FROM way;

WITH recursive way(N, T) AS
    (SELECT 1, '')
  UNION
    (SELECT road.B, concat(way.T, road.Name) FROM way, road WHERE way.N = road.A AND length(way.T) < 4)
SELECT N, min(T) AS L, max(T) AS G FROM way GROUP BY N;
