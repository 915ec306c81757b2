WITH RECURSIVE path(X, D) USING KEY (X) AS (
    SELECT $start::INTEGER, 0
    UNION
    (SELECT arc.B, min(path.D + arc.Cost)
     FROM path JOIN arc ON path.X = arc.A
     LEFT JOIN recurring.path known ON known.X = arc.B
     WHERE path.D + arc.Cost < coalesce(known.D, 1000000000)
     GROUP BY arc.B)
)
SELECT 'path', count(*) FROM path
