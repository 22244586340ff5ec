"""Loops whose elements are delivered one after the other."""
