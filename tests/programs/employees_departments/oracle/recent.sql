SELECT e.Name, d.Name, Hired FROM employee e JOIN department d USING (Dept) WHERE Hired >= '2020-01-01'
