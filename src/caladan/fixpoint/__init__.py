"""The fixpoint: rounds over what is new, relations and groups, small rounds, shapes."""
