"""The analysis: from a Program to a Checked one. One pass, one file, one function; see check."""
