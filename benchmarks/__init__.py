"""Measures ours beside what users would choose instead: run `python -m benchmarks` in the root of the repository."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
