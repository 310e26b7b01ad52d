"""Questions about rules, on layouts alone; needs no torch."""
