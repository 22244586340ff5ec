"""A module of somebody's that ends the process when it is imported."""

import sys

sys.exit(3)
