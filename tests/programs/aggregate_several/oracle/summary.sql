SELECT min(Pay), Region, max(Pay), sum(Pay)::BIGINT, Job, count(*), count(DISTINCT Pay), avg(Pay) FROM staff GROUP BY Region, Job
