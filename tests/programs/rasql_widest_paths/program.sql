CREATE TABLE road(A integer, B integer, Width integer);

WITH recursive widest(A, B, max() AS W) AS
    (SELECT A, B, Width FROM road)
  UNION
    (SELECT widest.A, road.B, CASE WHEN widest.W < road.Width THEN widest.W ELSE road.Width END
     FROM widest JOIN road ON widest.B = road.A)
SELECT A, B, W FROM widest;
