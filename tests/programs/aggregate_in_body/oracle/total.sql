SELECT P, (SELECT coalesce(sum(V), 0) FROM knows JOIN pay ON B = pay.P WHERE A = person.P) FROM person
