WITH RECURSIVE far(A, N) AS (
    SELECT A, 0 FROM start
    UNION
    SELECT arc.B, far.N + 1 FROM far JOIN arc ON far.A = arc.A
)
SELECT 'far', count(*) FROM far
