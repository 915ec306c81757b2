CREATE TABLE assembly(Part integer, Sub integer);
CREATE TABLE basic(Part integer, Days integer);

WITH recursive waitfor(Part, max() AS Days) AS
    (SELECT Part, Days FROM basic)
  UNION
    (SELECT assembly.Part, waitfor.Days FROM assembly, waitfor WHERE assembly.Sub = waitfor.Part)
SELECT Part, Days FROM waitfor;
