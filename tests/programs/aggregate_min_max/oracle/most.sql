SELECT Region, Job, max(Pay) FROM staff GROUP BY ALL
