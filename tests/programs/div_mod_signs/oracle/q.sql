SELECT X, Y, X // Y, X % Y FROM p
