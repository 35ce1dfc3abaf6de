"""The static site: plain HTML files that refer to one another and to nothing else.

`index_page` is the overview of all tracks, `task_page` the page of one board, `model_page` that of
one row; `pages` names all files. They are put together from `elements` (tables, headings, cells,
figures), and those from `html`, which escapes every text once. Style and script are in `assets`
and become part of every page. `boards/publish` shows the same task page inside MLflow.
"""
