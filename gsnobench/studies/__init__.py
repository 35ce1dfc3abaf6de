"""Studies: fixed sets of runs that answer one question, each ending in a table and a figure."""
