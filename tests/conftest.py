"""Make the examples and the tests' own support importable, from a checkout and from a copy alike."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS.parent / "examples"), str(TESTS / "support")]
