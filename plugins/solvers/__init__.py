"""Numerics that the datasets share: shapes <- meshing <- methods <- equations, imports go left."""
