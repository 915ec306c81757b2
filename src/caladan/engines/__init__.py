"""Engines: they evaluate delta programs. `interface` is what all of them do."""
