"""Runs in MLflow, which training never waits for and never imports.

`observer` is the plugin that hears of every run: it appends each event to a local file (`spool`)
and makes sure that a mirror is at work. `mirror` is that other process: it brings spools to the
store that `address` names, outlives the runs by a bounded time, and can be repeated at any time
(`gsnobench doctor --replay`). Only `mirror` and `boards/publish` know mlflow, and they import it
inside functions.
"""
