"""The studies of `gsnobench study`: fixed sets of runs that end in tables and a figure.

`sensitivity` shows how the error depends on the two central knobs of a model.
"""
