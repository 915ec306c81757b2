SELECT a.A, b.B, count(*) FROM edge a JOIN edge b ON a.B = b.A WHERE a.A < b.B AND NOT EXISTS (SELECT 1 FROM edge c WHERE c.A = a.A AND c.B = b.B) GROUP BY ALL
