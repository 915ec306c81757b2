SELECT region, sum(pay), count(DISTINCT (name, job, pay)) FROM staff GROUP BY ALL
