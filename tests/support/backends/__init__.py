"""Databases, servers and state stores, whole and broken."""
