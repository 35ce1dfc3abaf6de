"""The matrix of `gsnobench bench` and how its cells are run.

`matrix` lists the cells (rows, tasks, seeds), their states and estimates, and runs what is missing.
`executors` run a set of specs, in this process or in a pool of processes.
"""
