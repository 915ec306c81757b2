WITH link AS (
    SELECT DISTINCT least(A, B) AS A, greatest(A, B) AS B FROM arc WHERE A <> B
)
SELECT 'clique', count(*)
FROM link xy
JOIN link yz ON xy.B = yz.A
JOIN link xz ON xz.A = xy.A AND xz.B = yz.B
JOIN link zw ON yz.B = zw.A
JOIN link yw ON yw.A = xy.B AND yw.B = zw.B
JOIN link xw ON xw.A = xy.A AND xw.B = zw.B
