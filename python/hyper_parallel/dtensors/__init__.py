"""The tensor class, its factories, index assignment and gradients of intermediates."""
