"""Whatever restricts the variables of a body, each kind in a file of its own.

protocol.py   estimate, propose, confirm, influence: over values, for users, and over words, within
lookup.py     an atom that is looked up by what is bound; comparisons may narrow it to a range
proposal.py   atoms that meet in a variable: the one with the fewest values proposes
atom.py       an atom in a search, under whatever is bound
condition.py  negated atoms, comparisons and computed variables
equation.py   conditions in a search; an equation proposes what it can be solved for
values.py     constraints over values, with their words
sets.py       ranges, sets and predicates over values
"""
