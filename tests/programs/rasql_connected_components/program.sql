CREATE TABLE arc(A integer, B integer);

CREATE VIEW labels(Node, Label) AS
  WITH recursive cc(Node, min() AS Label) AS
      (SELECT A, A FROM arc)
    UNION
      (SELECT arc.B, cc.Label FROM cc, arc WHERE cc.Node = arc.A)
  SELECT Node, Label FROM cc;

SELECT Node, Label FROM labels;

SELECT count(DISTINCT Label) FROM labels;

SELECT l.Label, count(*) AS Size
FROM labels l JOIN labels m ON l.Node = m.Node
GROUP BY l.Label;
