"""The load test of the SQL backend under faults: run `python -m chaos` in the root of the repository."""
