"""Jobs and their clients."""
