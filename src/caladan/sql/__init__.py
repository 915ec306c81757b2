"""SQL: what a RaSQL script asks, and who answers it.

    engine       what a SQL engine is: frames, queries over frames, their text and their errors
    duck         DuckDB, over Arrow: for the engines of this process
    spark        Spark SQL: for the spark engine
    functions    Spark's SQL said for DuckDB: `said`; aggregates, calls, meaning (with the macros of
                 casts and texts), patterns and widths (with digits) help
    demand       constants by which a query asks for a part of a recursive view
    excerpts     what else it needs: rules on top of the view, and the query over what they derive;
                 mentions (with selects), filters and semijoins tell what that is
    reading      what all SQL of a statement asks of its recursive views
    names        which table a name stands for; data with duplicates and NULL, as SQL sees it
    script       statements one after the other: `run`, the table of contents; parameters

Views that are recursive become rules and go through the compiler; everything else is text for a SQL
engine. A view that feeds the recursion is evaluated before it, one that reads it after.
"""
