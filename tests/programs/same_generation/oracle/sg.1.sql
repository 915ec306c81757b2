WITH RECURSIVE sg(X, Y) AS (
  SELECT p.C, q.C FROM parent p JOIN parent q ON p.P = q.P WHERE p.C <> q.C
  UNION
  SELECT p.C, q.C FROM sg JOIN parent p ON p.P = sg.X JOIN parent q ON q.P = sg.Y)
SELECT X, Y FROM sg
