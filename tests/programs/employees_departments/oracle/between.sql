SELECT Name FROM employee WHERE Hired > '2017-03-01 08:00:00' AND Hired < '2018-03-01'
