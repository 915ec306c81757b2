SELECT d.Name, count(*), sum(Salary), min(Hired), max(Hired) FROM employee JOIN department d USING (Dept) GROUP BY d.Name
