"""`python -m gsnobench` is the command line."""

if __name__ == "__main__":  # a process of the pool imports this file under another name
    from gsnobench.cli.app import main

    main()
