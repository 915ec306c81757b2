SELECT Region, string_agg(Name, '+' ORDER BY Name) FROM (SELECT DISTINCT Region, Name FROM m) GROUP BY Region
