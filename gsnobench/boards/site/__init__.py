"""The static site: plain HTML files that refer to one another and to nothing else.

`index_page` is the overview of all tracks (its first screen is in `summary`), `task_page` the page
of one board (`task_header` says what the task is), `model_page` that of one row, `glossary` holds
the words and the page for those who add a model; `pages` names all files. They are put together
from `elements` (tables, headings, cells, figures), `remarks` of a person, `formula` and
`reproduce`, and those from `html`, which escapes every text once. `surroundings` knows what lies
beside the site: pictures, cards, result files, and the facts of `site/about`. Style and scripts are
in `assets` and become part of every page. `boards/publish` shows the same pages inside MLflow.
"""
