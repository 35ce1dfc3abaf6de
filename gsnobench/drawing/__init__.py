"""Pictures of fields on meshes, under one set of rules.

`rules` holds inks, colour maps, sizes of letters and the spelling of units; `scales` the colours
and limits that panels share; `quantities` makes one number per node of a field or a vector; `views`
turns a mesh into what paper shows of it, with the help of `space` (surfaces and slices of bodies in
space); `flow` makes lines of a stream function or a velocity; `page` is a sheet of panels and
colour bars, with `pieces` of triangles and a `palette` for the file; `tasks` draws a task:
geometry, one sample, a strip of frames; `curves` draws a training; `moving` joins pages to a GIF.
Boards, runs, sweeps and studies use the same rules. Nothing here knows a model.
"""
