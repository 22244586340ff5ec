"""The window of one run: begun, loaded and committed."""
