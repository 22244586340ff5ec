"""The rows and frames that go through a window, counted and checked."""
