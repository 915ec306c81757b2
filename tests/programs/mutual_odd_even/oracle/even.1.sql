WITH RECURSIVE p(A, B, odd) AS (SELECT A, B, true FROM arc UNION SELECT p.A, arc.B, NOT odd FROM p JOIN arc ON p.B = arc.A)
SELECT A, B FROM p WHERE NOT odd
