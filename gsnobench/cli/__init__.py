"""The front door."""


def main() -> None:
    """Entry point of the command line."""
    from gsnobench.cli.app import main as app_main

    app_main()
