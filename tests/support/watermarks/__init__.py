"""Watermarks over sources that change, and runs of them."""
