"""Numerical methods that the datasets share, one concept a file."""
