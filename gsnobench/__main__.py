"""`python -m gsnobench`."""

from gsnobench.cli import main

main()
