"""Loops whose elements are worked on several at a time: threads and tasks of an event loop."""
