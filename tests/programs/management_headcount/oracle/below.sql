WITH RECURSIVE b(M, E) AS (SELECT M, E FROM manages UNION SELECT m.M, b.E FROM b JOIN manages m ON m.E = b.M) SELECT M, count(*) FROM b GROUP BY M
