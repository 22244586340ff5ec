"""The connection of a process to its database: calls have a time limit, are repeated, and raise our own errors."""
