CREATE TABLE organizer(P integer);
CREATE TABLE friend(Y integer, X integer);

WITH recursive attend(Person) AS
    (SELECT P FROM organizer)
  UNION
    (SELECT Name FROM friends WHERE N >= {threshold}),
recursive friends(Name, count() AS N) AS
    (SELECT friend.Y, friend.X FROM attend, friend WHERE attend.Person = friend.X)
SELECT Person FROM attend;

WITH recursive attend(Person) AS
    (SELECT P FROM organizer)
  UNION
    (SELECT Name FROM friends WHERE N >= :threshold),
recursive friends(Name, count() AS N) AS
    (SELECT friend.Y, friend.X FROM attend, friend WHERE attend.Person = friend.X)
SELECT Name, N FROM friends;
