SELECT s.Name, c.Name FROM student s, course c WHERE (s.Id, c.Name) NOT IN (SELECT * FROM passed) AND (s.Id, c.Name) NOT IN (SELECT * FROM takes)
AND s.Id NOT IN (SELECT * FROM suspended) AND NOT EXISTS (SELECT 1 FROM prerequisite p WHERE p.Course = c.Name AND (s.Id, p.Needs) NOT IN (SELECT * FROM passed))
