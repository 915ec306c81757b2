"""Plans made of checked rules before there is data.

recursion   what a recursive clique computes: a closure over a semiring, if its rules fall apart
weights     how a rule makes a new value of the old one: the ⊗ of that semiring
literals    taking the literals of a rule apart
"""
