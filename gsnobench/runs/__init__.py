"""One run, from a request to a result.

`plan` resolves a `request` and its `settings` into a Plan and its RunSpec; `machine` is where it
runs; `stages` has the run itself, as an object whose stages are methods; `run` adds the folder, the
lock, the observers and every way a run can end; `costs` says what it took. `calibrate` counts the
steps of a track's budget, `source` hashes a plugin's code, `migrate` brings results of an older
form to this one. The rest is what one can do with a finished run: predict (`trained`,
`predictions`; `foreign` saves those of other programs), draw (`gallery`, `animation`), export
(`vtu`), pack (`bundle`) and verify (`verify`, `verify_file`).
"""
