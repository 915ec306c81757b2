CREATE TABLE manages(M integer, E integer);

WITH recursive below(M, count() AS N) AS
    (SELECT M, E FROM manages)
  UNION
    (SELECT manages.M, below.N FROM manages, below WHERE manages.E = below.M)
SELECT M, N FROM below;
