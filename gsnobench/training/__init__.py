"""From samples to errors: `fit` trains a module, `rollout` predicts with it, `evaluate` scores it.

`normaliser` scales inputs and outputs, `geometry` computes and stacks what a model precomputes on
meshes, `loader` makes batches of both. `fit` is the only training loop; `optimisation` holds its
knobs and optimisers, `muon` one of these, `checkpoint` what a resumed run needs, `ctrl_c` how it is
interrupted. `rollout` is the only way to predict. `metrics` are errors in physical units,
`evaluate` collects them over a split, `bands` splits them by Laplacian modes. `reference_step` is a
fixed piece of training by which the costs on two machines can be compared. `computed_inputs` are
inputs that are not learned, `offered` offers them to any model. Nothing here knows files of runs,
plugins or the command line.
"""
