SELECT Job, count(*) FROM staff GROUP BY ALL
