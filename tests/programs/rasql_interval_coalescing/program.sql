CREATE TABLE interval(S integer, E integer);

CREATE VIEW starts(T) AS
  SELECT a.S FROM interval a, interval b WHERE a.S <= b.E GROUP BY a.S HAVING a.S = min(b.S);

WITH recursive coal(S, max() AS E) AS
    (SELECT starts.T, interval.E FROM starts, interval WHERE starts.T = interval.S)
  UNION
    (SELECT coal.S, interval.E FROM coal, interval
     WHERE coal.S <= interval.S AND interval.S <= coal.E)
SELECT S, E FROM coal;
