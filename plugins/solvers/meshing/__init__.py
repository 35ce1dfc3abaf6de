"""Meshes of shapes with exact node counts: sizing, triangulation, smoothing, refinement."""
