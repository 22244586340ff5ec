"""Job services of providers on loopback or in memory, and trials of their operators."""
