"""The crash explorer: one run, with a fault at each point."""
