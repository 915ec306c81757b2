SELECT count(*) FROM edge a JOIN edge b ON a.B = b.A JOIN edge c ON c.A = a.A AND c.B = b.B WHERE a.A < a.B AND b.A < b.B
