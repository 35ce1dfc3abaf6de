"""`gsnobench sweep`: a search for good knobs with Optuna, on validation alone.

`space` turns knobs into axes and points. `trials` keeps the trials in Optuna's storage, safe for
workers that die, `study_file` carries them to another home. `sampling` chooses points that no kill
changes. `search` holds the search itself: trials, refits of the best points, one test of the
winner. `workers` run it in processes of this host. `record` writes the parent run in MLflow,
`figures` the tables and pictures. `conduct` does all of it: what the command and `gb.sweep` call.
"""
