"""Plans and styles for ``nn.Module``."""
