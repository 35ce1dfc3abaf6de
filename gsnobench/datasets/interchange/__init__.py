"""Data of the world in and out: labelled arrays, tensors, and files from anybody's arrays.

`labelled` opens files and tasks with xarray; `tensors` gives samples to a training loop of one's
own; `writing` is `gb.write_file`. A source becomes `raw` data (`mesh_files`, `graph_objects`,
`hdf5`, `labelled`), its arguments are read by `mesh_argument` and `split_argument`, and `assemble`
makes samples of it; `own_dataset` does the same with what `gb.open_file` returned. `exporting`
writes folders for others and reads them again, as `exported_meshes` (for `paraview`) or
`exported_arrays`.
"""
