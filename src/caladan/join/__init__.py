"""The one join: a body over stored relations, and its solutions batch by batch.

    rules.Body ─ choice.py, route.py ─► Access ─ plan.py ─► steps ─ walk.py ─► sink
                 with a grade the search is a step ─► adaptive.py, by estimates.py

access.py        the steps as plain data, which explain prints
selections.py    what of a body waits for variables
prefixes.py      under which columns atoms of a cycle (hypergraph.py) take part
extend.py        the one step: its variables, its constraints, and who chooses
constraints/     what restricts variables, each kind in a file: it proposes, or only confirms
intersection.py  all constraints that have a variable: the least proposes, the others confirm
choice.py        which atom comes next, by estimates measured on a sample; they are kept, and told
frontier.py      the batches that steps hand on
late_materialization.py   columns that only the head reads
classes.py       columns that share their words; expressions.py, arithmetic.py: values computed
search/          `find`: questions from Python
"""
