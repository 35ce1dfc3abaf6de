"""The studies of `gsnobench study`: fixed sets of runs that end in tables, a figure, a sentence.

`catalogue` lists them with their options. `base` runs them, `planning` makes their plans,
`statistics` has their intervals, `curves` what is said of errors over a number, and `figures` what
their figures share.

`ablation` leaves out the parts of a model, `readings` reads what a paper leaves open the other way;
`changes` is what both share. `budget` shows the error over the CPU-seconds of training, `data` over
the training samples. `resolution` compares meshes, `transfer` takes the weights of one mesh to
others, `time` compares windows on their common frames; `yardstick` scores predictions for them.
`sensitivity` shows how the error depends on the two central knobs of a model. `cost` times steps,
forwards, bases and solvers, and trains nothing. `inverse` asks for the input behind noisy
observations, by samplers through a trained operator.
"""
