WITH RECURSIVE tc(B) AS (
    SELECT B FROM arc WHERE A = $start
    UNION
    SELECT arc.B FROM tc JOIN arc ON tc.B = arc.A
)
SELECT 'answer', count(*) FROM tc
