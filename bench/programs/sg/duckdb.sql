WITH RECURSIVE sg(X, Y) AS (
    SELECT a.B, b.B FROM arc a JOIN arc b ON a.A = b.A WHERE a.B <> b.B
    UNION
    SELECT a.B, b.B FROM sg JOIN arc a ON sg.X = a.A JOIN arc b ON sg.Y = b.A
)
SELECT 'sg', count(*) FROM sg
