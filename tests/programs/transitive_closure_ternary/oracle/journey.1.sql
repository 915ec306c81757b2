WITH RECURSIVE j("From", "To", Means) AS (SELECT * FROM line UNION SELECT j."From", line."To", j.Means FROM j JOIN line ON j."To" = line."From" AND j.Means = line.Means)
SELECT * FROM j
