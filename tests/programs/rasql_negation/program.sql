CREATE TABLE arc(A integer, B integer);

CREATE VIEW node(X) AS SELECT A FROM arc UNION SELECT B FROM arc;

CREATE VIEW closure(A, B) AS
  WITH recursive tc(A, B) AS
      (SELECT A, B FROM arc)
    UNION
      (SELECT tc.A, arc.B FROM tc, arc WHERE tc.B = arc.A)
  SELECT A, B FROM tc;

SELECT n.X AS A, m.X AS B FROM node n, node m
WHERE n.X <> m.X AND NOT EXISTS (SELECT 1 FROM closure c WHERE c.A = n.X AND c.B = m.X);

SELECT X FROM node WHERE NOT EXISTS (SELECT 1 FROM closure WHERE A = X AND B = X);
