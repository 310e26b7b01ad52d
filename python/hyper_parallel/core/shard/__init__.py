"""The layout of packages that programs for HyperParallel import from."""
