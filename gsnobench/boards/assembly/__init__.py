"""From results to boards: `tracks` makes tracks and boards of them, `rows` their rows and variants.

`ranking` compares the rows of a board, `marks` says what a reader must know of one. What the
registry, the paper and the installed plugins declare of rows is in `declared`.
"""
