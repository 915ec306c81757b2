"""The one join: a body over stored relations, and its solutions batch by batch.

    rules.Body ─ orders.py, route.py, core_route.py ─► Access ─ plan.py ─► steps ─ walk.py ─► sink
                 search_route.py, if a grade is asked for ─► guided.py, by estimates.py

access.py        the steps as plain data, which explain prints
selections.py    what of a body waits for variables
prefixes.py      under which columns atoms of a cycle (hypergraph.py) take part
extend.py        the one step: its variables, its constraints, and who chooses
constraints/     what restricts variables, each kind in a file: it proposes, or only confirms
intersection.py  all constraints that have a variable: the least proposes, the others confirm
trial.py         a sample of solutions, which tells an order by its fan-outs
frontier.py      the batches that steps hand on
late_materialization.py   columns that only the head reads
classes.py       columns that share their words; expressions.py, arithmetic.py: values computed
search/          `find`: questions from Python
"""
