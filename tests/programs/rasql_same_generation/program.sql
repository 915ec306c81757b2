CREATE TABLE parent(P integer, C integer);

WITH recursive sg(X, Y) AS
    (SELECT a.C, b.C FROM parent a, parent b WHERE a.P = b.P AND a.C <> b.C)
  UNION
    (SELECT a.C, b.C FROM parent a, sg, parent b WHERE a.P = sg.X AND b.P = sg.Y)
SELECT X, Y FROM sg;

WITH recursive sg(X, Y) AS
    (SELECT a.C, b.C FROM parent a, parent b WHERE a.P = b.P AND a.C <> b.C)
  UNION
    (SELECT a.C, b.C FROM parent a, sg, parent b WHERE a.P = sg.X AND b.P = sg.Y)
SELECT X, Y FROM sg WHERE X = 45;
