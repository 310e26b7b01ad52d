"""Meshes, placements, layouts and the values that plans write them in."""
