"""Sources: what a loop goes through, and what a position in each of them means."""
