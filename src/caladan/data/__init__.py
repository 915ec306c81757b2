"""Data: what users hand in, as facts of typed columns.

source.py    what `db.add` was given: a path, something in memory, a Spark DataFrame
infer.py     the columns of a relation that no program declares
load.py      a source, files among them, as an Arrow table of declared columns: the door for engines
             in this process; text.py, json_rows.py, formats.py read files, which may say more
             of columns than types do
memory.py    lists, dicts, data frames and Arrow tables
problems.py  what every reader says about bad data
schema.py    column types and Arrow types; an Arrow table as a relation
"""
