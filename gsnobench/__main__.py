"""`python -m gsnobench` is the command line."""

from gsnobench.cli import main

if __name__ == "__main__":  # a process of the pool imports this file under another name
    main()
