CREATE TABLE sales(M integer, Profit double);
CREATE TABLE sponsor(M integer, Sponsored integer);

WITH recursive bonus(M, sum() AS B) AS
    (SELECT M, Profit * 0.1 FROM sales)
  UNION
    (SELECT sponsor.M, bonus.B * 0.5 FROM bonus, sponsor WHERE bonus.M = sponsor.Sponsored)
SELECT M, B FROM bonus;
