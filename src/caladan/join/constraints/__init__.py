"""Whatever restricts the variables of a body, each kind in a file of its own.

protocol.py   estimate, propose, confirm, influence: over values, for users, and over words, within
lookup.py     an atom that is looked up by what is bound; comparisons may narrow it to a range
atom.py       an atom in a search, under whatever is bound
condition.py  negated atoms, comparisons and computed variables; an equation proposes as well
semijoin.py   atoms that nobody reads: whether they have a solution
rollup.py     atoms that only aggregates read: what their solutions add up to
values.py     constraints over values, with their words
sets.py       ranges, sets and predicates over values
"""
