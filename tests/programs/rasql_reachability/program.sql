CREATE TABLE arc(A integer, B integer);
CREATE TABLE source(X integer);

with recursive REACH(X) AS
    (select x from SOURCE)
  UNION
    (select "ARC".b from reach, Arc where Reach.X = arc.`A`)
select X from Reach;
