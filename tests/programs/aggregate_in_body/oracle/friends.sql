SELECT P, (SELECT count(*) FROM knows WHERE A = P) FROM person
