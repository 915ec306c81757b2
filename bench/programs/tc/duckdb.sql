WITH RECURSIVE tc(A, B) AS (
    SELECT A, B FROM arc
    UNION
    SELECT tc.A, arc.B FROM tc JOIN arc ON tc.B = arc.A
)
SELECT 'tc', count(*) FROM tc
