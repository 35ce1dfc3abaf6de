"""Engines that run a set of specs; one a file."""
