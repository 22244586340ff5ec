"""Sources that change, worlds of loops, and the laws that are checked in them."""
