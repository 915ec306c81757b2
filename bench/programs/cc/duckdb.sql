WITH RECURSIVE cc(X, V) USING KEY (X) AS (
    SELECT DISTINCT A, A FROM arc
    UNION
    (SELECT arc.B, min(cc.V)
     FROM cc JOIN arc ON cc.X = arc.A
     LEFT JOIN recurring.cc known ON known.X = arc.B
     WHERE cc.V < coalesce(known.V, 1000000000)
     GROUP BY arc.B)
)
SELECT 'labels', count(DISTINCT V) FROM cc
