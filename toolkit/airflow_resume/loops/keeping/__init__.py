"""What is kept of a loop: in memory while it runs, and in its record."""
