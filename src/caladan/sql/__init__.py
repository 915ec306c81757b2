"""SQL: what a RaSQL script asks, and who answers it.

    engine       what a SQL engine is: frames, queries over frames, their text and their errors
    duck         DuckDB, over Arrow: for the engines of this process
    spark        Spark SQL: for the spark engine
    functions    Spark's SQL said for DuckDB: `said`; aggregates, calls, meaning (with the macros of
                 casts and texts), patterns and widths (with digits) help
    demand       what a query asks of a recursive view
    names        which table a name stands for; data with duplicates and NULL, as SQL sees it
    script       statements one after the other: `run`, the table of contents; parameters

Views that are recursive become rules and go through the compiler; everything else is text for a SQL
engine. A view that feeds the recursion is evaluated before it, one that reads it after.
"""
