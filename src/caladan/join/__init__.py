"""The one join: a body over stored relations, and its solutions batch by batch.

    rules.Body ─ orders.py, route.py, core_route.py ─► Access ─ plan.py ─► Step ─ walk.py ─► sink
                 search_route.py, if a grade is asked for ─► guided.py, by estimates.py

access.py       the steps as plain data, which explain prints
selections.py   what of a body waits for variables
prefixes.py     under which columns atoms of a cycle (hypergraph.py) take part
constraints/    what restricts variables, each kind in a file
trial.py        a sample of solutions, which tells an order by its fan-outs
steps.py        all kinds of steps; frontier.py: the batches they hand on
meeting.py      all that have a variable: who proposes, who confirms
semijoin.py     atoms that nobody reads; late_materialization.py: columns that only the head reads
classes.py      columns that share their words; expressions.py, arithmetic.py: values computed
search/         `find`: questions from Python
"""
