"""What the words of the site mean, and how to add a model to it."""

from __future__ import annotations

from collections.abc import Sequence

from gsnobench.boards import wording
from gsnobench.boards.board import BoardTrack
from gsnobench.boards.columns import COSTS, ERROR, FURTHER_ERRORS, INTERVAL, SEEDS
from gsnobench.boards.site.elements import PLACE_HELP, SITE_TITLE, site_footer, site_links
from gsnobench.boards.site.html import Html, document, tag
from gsnobench.boards.site.reproduce import copyable
from gsnobench.boards.site.surroundings import Surroundings
from gsnobench.registry import read_registry

STANDING = {
    "tasks": "tasks of the benchmark on which the row has an error",
    "mean rank": "over the compared tasks, of rows that have all of them; 1 is the best",
    "times the best": "geometric mean of error / best error over the row's compared tasks",
}
WORDS = {
    "track": "a named budget, equal for every model, in CPU-seconds or epochs",
    "task": "a question about a dataset; NAME@5-46 gives 5 frames and asks for the next 46",
    "row": "a model with a preset, model@preset, at the step count of the track",
    "+features": "the same preset, offered computed inputs such as distances to the boundary",
    "floor": "a predictor in closed form without a training loop, which every model should beat",
    "variant": "a row whose knobs or steps differ from the preset; it is not ranked",
    "extra task": "a task that is not one of the benchmark's, such as an easier form of one; no "
    "mean and no count includes it",
    "compared tasks": "tasks on which at least two models have an error",
    "significant": "a paired bootstrap over test samples and a test over seeds both say that two "
    "rows differ, after Holm's correction",
    "OOD": "out of distribution: test samples drawn from another distribution than the training",
    "bold and underlined": f"{wording.BOLD}; the lowest error of the task",
    "° and †": "fewer than three seeds; training was stopped before it had converged",
}


def glossary() -> Sequence[Html]:
    """Every word and every heading, with its meaning."""
    columns = (ERROR, INTERVAL, SEEDS, *FURTHER_ERRORS, *COSTS)
    presets = {f"preset {name}": text for name, text in read_registry().preset_help.items()}
    terms = {
        **WORDS,
        **presets,
        **STANDING,
        **PLACE_HELP,
        **{column.name: column.help for column in columns},
    }
    pairs = [tag("div", tag("dt", term), tag("dd", text)) for term, text in terms.items()]
    return (
        tag("h2", "How to read it", id="glossary"),
        tag("p", wording.HOW_TO_READ),
        tag("p", wording.HOW_TO_READ_MARKS),
        tag("details", tag("summary", "All words and headings"), tag("dl", pairs, class_="terms")),
    )


TASKS = 3  # of the benchmark that the commands below name
STEPS = (
    (
        "Write it as a plugin of its own; nothing here has to change.",
        ("gsnobench plugin new mymodel --kind model", "pip install -e gsnobench-mymodel"),
    ),
    (
        "Check it against the contract: shapes, gradients, leaks, other meshes.",
        ("gsnobench check mymodel",),
    ),
    (
        "Run it with three seeds. The floors run beside it, and a finished run is not repeated.",
        ("gsnobench bench --models mymodel --datasets {tasks} --seeds 0,1,2",),
    ),
    (
        "See where it stands among all rows.",
        ("gsnobench leaderboard show", "gsnobench leaderboard show --task {task}"),
    ),
    (
        "Submit each run by its name, which run and status print. In a clone of the repository "
        "this checks the result files, puts them in place and prints the git commands to send "
        "them. Open a pull request with a link to your plugin.",
        ("gsnobench submit RUN", "make boards"),
    ),
)
CHECKS = (
    "The form, name, place and size of every file are checked, its tables are recomputed, and a "
    "page that is out of date is an error. A bundle (gsnobench run --bundle) lets others check "
    "predictions and weights too. A row with fewer than three seeds is shown and marked, and one "
    "seed gets no place."
)


def add_page(tracks: Sequence[BoardTrack], around: Surroundings) -> str:
    """How to run a model of one's own and how to submit it."""
    tasks = read_registry().board_tasks[:TASKS]
    names = {"tasks": ",".join(tasks), "task": tasks[0]}
    steps = [
        tag("li", tag("p", text), [copyable(command.format(**names)) for command in commands])
        for text, commands in STEPS
    ]
    lead = "From an idea to a row of the leaderboard, in five steps."
    main = [
        tag("h1", "Add your model"),
        tag("p", lead, class_="lead"),
        tag("ol", steps, class_="steps"),
        tag("h2", "What is checked"),
        tag("p", CHECKS),
    ]
    footer = site_footer(tracks, around, "../")
    title = f"Add your model, {SITE_TITLE}"
    return document(title, site_links("../"), main, footer=footer, about=lead)
