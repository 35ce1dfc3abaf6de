"""Pictures of the boards: SVG for pages, one PNG per track for a README.

`task` draws one board (cost, frames, bands, run time, samples), `track` the view across tasks,
`standing` places, ranks, accuracy against cost, and training curves.
`style` gives every row its colour and marker and turns a sheet into SVG in the ink of the page;
`axes` holds logarithmic axes and the names of rows beside them. The same board gives the same
bytes.
"""
