"""From a task id to a file of samples and back.

`tasks` reads an id such as `swe@5-46`; `ensure` returns its NetCDF file and makes it if it is
missing; `generate` runs a dataset plugin's solver in processes; `store` writes and opens files with
the help of `netcdf` (their layout), `sample_blocks` (samples as arrays), `task_json`, `checksums`
and `faults`; `from_numpy` imports arrays of others; `rows` are arrays made when they are indexed;
`imported` keeps public data that an importer plugin read, `report` says what is in a file,
`verification` whether it is what it should be; `download` fetches public files,
`inputs` reads inputs without truth, `split_by_time` cuts long trajectories. The
folder `interchange` opens and writes data of the world. Nothing here knows a model.
"""
