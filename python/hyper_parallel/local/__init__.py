"""Code on local tensors: regions, collectives, ``custom_shard``."""
