"""Databases and attempts for tests of sinks."""
