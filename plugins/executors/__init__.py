"""Engines that run a set of specs; one per file."""
