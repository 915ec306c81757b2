WITH RECURSIVE d(P, D) AS (SELECT Part, Days FROM basic UNION SELECT a.Part, d.D FROM d JOIN assembly a ON a.Sub = d.P) SELECT P, max(D) FROM d GROUP BY P
