"""Domains and bodies before there is a mesh: outlines, wing sections, voids, car bodies."""
