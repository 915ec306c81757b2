WITH RECURSIVE path(A, B, D) USING KEY (A, B) AS (
    SELECT A, B, 1 FROM arc
    UNION
    (SELECT path.A, arc.B, min(path.D + 1)
     FROM path JOIN arc ON path.B = arc.A
     LEFT JOIN recurring.path known ON known.A = path.A AND known.B = arc.B
     WHERE path.D + 1 < coalesce(known.D, 1000000)
     GROUP BY path.A, arc.B)
)
SELECT 'path', count(*) FROM path
