SELECT count(DISTINCT (Region, Job)) FROM staff
