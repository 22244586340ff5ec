"""A window as a condition of a query."""
