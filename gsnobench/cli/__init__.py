"""The front door: each file holds the commands of one subject.

A command reads its options, makes one call into a room and prints a table or one JSON document.
`app` is the whole program; `run`, `data`, `bench`, `sweep`, `study`, `results`, `boards`, `show`,
`plugin`, `doctor` and `ui` hold the commands of those names. `options` are shared by several
commands, `console` prints facts and help, `table` tables. `matrix_view` draws the matrix of
`bench` and says what many runs would cost, `card` draws a model's page; `scaffold` writes a new
plugin, `gpu` compares a graphics card with the CPU. Heavy imports stay inside functions, so that
`--help` appears at once.
"""


def main() -> None:
    """Run the command line."""
    from gsnobench.cli.app import main as run_app

    run_app()
