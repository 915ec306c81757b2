SELECT DISTINCT x.A, z.B FROM arc x JOIN arc y ON x.B = y.A JOIN arc z ON y.B = z.A WHERE x.A < z.B
