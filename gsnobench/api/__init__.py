"""What `import gsnobench as gb` offers a notebook, shared with the command line.

`running.py` trains one model (`gb.run`) and `result.py` is what comes back; `matrix.py` runs many
(`gb.bench`), `searching.py` searches knobs (`gb.sweep`), `boards.py` reads the leaderboards
(`gb.leaderboard`). `submission.py` gathers results for a pull request, `progress.py` shows how far
a run is, and `keywords.py` refuses misspelt options.
"""
