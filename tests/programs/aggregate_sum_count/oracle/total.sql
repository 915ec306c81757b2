SELECT Region, sum(Pay)::BIGINT FROM staff GROUP BY ALL
