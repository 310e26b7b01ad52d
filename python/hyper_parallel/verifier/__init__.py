"""Every rule against the unsplit op."""
