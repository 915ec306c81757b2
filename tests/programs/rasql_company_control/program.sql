CREATE TABLE shares(Owner string, Company string, Percent integer);

CREATE VIEW controlled AS
  WITH recursive total(Owner, Company, sum() AS Percent) AS
      (SELECT Owner, Company, Percent FROM shares)
    UNION
      (SELECT control.Owner, shares.Company, shares.Percent FROM control, shares
       WHERE control.Company = shares.Owner AND control.Owner <> control.Company),
  recursive control(Owner, Company) AS
      (SELECT Owner, Company FROM total WHERE Percent > 50)
  SELECT Owner, Company, Percent FROM total;

SELECT Owner, Company FROM controlled WHERE Percent > 50;

SELECT Owner, Company, Percent FROM controlled;
