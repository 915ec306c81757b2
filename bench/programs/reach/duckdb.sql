WITH RECURSIVE reach(A) AS (
    SELECT A FROM start
    UNION
    SELECT arc.B FROM reach JOIN arc ON reach.A = arc.A
)
SELECT 'reach', count(*) FROM reach
