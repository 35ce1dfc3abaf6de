"""The front door.

Each file holds the commands of one subject: options in, one call into a room, a table or one JSON
document out. Heavy imports stay inside functions so that `--help` answers at once.
"""


def main() -> None:
    """Run the command line."""
    from gsnobench.cli.app import main as run_app

    run_app()
