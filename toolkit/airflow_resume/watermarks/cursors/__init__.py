"""Cursors: the types of a watermark's values."""
