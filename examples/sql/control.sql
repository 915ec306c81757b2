-- Who controls whom: a company controls another if it owns more than half of it, by itself and
-- through those it controls. Two views read each other, one of them adds up.
--
--   caladan run examples/sql/control.sql --facts examples/sql

CREATE TABLE shares(Owner string, Company string, Percent integer);

WITH recursive total(Owner, Company, sum() AS Percent) AS
    (SELECT Owner, Company, Percent FROM shares)
  UNION
    (SELECT control.Owner, shares.Company, shares.Percent FROM control, shares
     WHERE control.Company = shares.Owner AND control.Owner <> control.Company),
recursive control(Owner, Company) AS
    (SELECT Owner, Company FROM total WHERE Percent > 50)
SELECT Owner, count(*) AS Controlled, max(Company) AS Last
FROM control
GROUP BY Owner
ORDER BY Controlled DESC, Owner;
