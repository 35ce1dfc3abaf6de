"""One model a file."""
