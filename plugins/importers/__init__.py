"""Readers of public datasets: one file per set, and one per file format."""
