SELECT G, min(X), max(X), sum(X), avg(X), count(X), count(DISTINCT X) FROM m GROUP BY G
