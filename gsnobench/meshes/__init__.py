"""What can be computed from a mesh alone.

`topology` holds cells, edges and boundaries; `simplices` volumes, gradients and the nearest simplex
of a point; `operators` P1 finite-element matrices; `surfaces` normals and areas of boundaries and
bodies; `graphs` graph Laplacians; `distances` and `interpolation` what their names say; `modes`
Laplacian eigenbases for models, `solver_modes` those that the data are made from. Pure functions of
numpy arrays; models, metrics and solvers may use all of it.
"""
