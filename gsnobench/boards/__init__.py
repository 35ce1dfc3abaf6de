"""Leaderboards as pure functions of result files; nothing here trains, and no other room is needed.

The way is one line: `evidence` reads result files, `statistics` compares their errors,
`convergence` judges how training ended, `assembly` makes the tracks, boards and rows of `board`,
`standings` looks across tasks, and each view shows them with the columns of `columns`, in the words
of `wording` and the sentences of `reading`: `terminal`, `markdown`, `tables` (CSV, JSON, parquet,
LaTeX), `site` (HTML), `plots`, and `reproduction`, our numbers beside those of the paper. `studies`
reads and shows what studies found. `build` writes all rendered files, `diff` compares two folders
of evidence, `publish` brings the boards into MLflow.
"""
