"""Several runs that take turns, in every order."""
