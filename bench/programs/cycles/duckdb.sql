WITH e AS (SELECT DISTINCT A, B FROM arc)
SELECT 'cycle', count(*)
FROM e x JOIN e y ON x.B = y.A JOIN e z ON y.B = z.A AND z.B = x.A
