"""One dataset a file."""
