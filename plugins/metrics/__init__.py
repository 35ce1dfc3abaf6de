"""Scores beside the errors of every run: one metric per file; `body_force` is shared by two."""
