WITH link AS (
    SELECT DISTINCT least(A, B) AS A, greatest(A, B) AS B FROM arc WHERE A <> B
)
SELECT 'triangle', count(*)
FROM link x JOIN link y ON x.B = y.A JOIN link z ON z.A = x.A AND z.B = y.B
