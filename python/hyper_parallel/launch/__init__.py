"""Ranks: who this one is, how many there are, and what happens when one fails."""
