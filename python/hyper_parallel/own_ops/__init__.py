"""Ops of the program: ``DistributedOp``, ``DFunction``, rules, files."""
