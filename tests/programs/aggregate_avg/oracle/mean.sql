SELECT Region, avg(Pay) FROM staff GROUP BY ALL
