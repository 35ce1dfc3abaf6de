"""Numerical methods on meshes that know no particular equation's physics."""
