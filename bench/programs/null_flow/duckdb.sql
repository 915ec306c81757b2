WITH RECURSIVE nulls(A, B) AS (
    SELECT A, B FROM source
    UNION
    SELECT nulls.A, arc.B FROM nulls JOIN arc ON nulls.B = arc.A
)
SELECT 'null', count(*) FROM nulls
