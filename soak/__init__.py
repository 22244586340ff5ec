"""Mapped tasks that are killed at random on a real Airflow: `python -m soak`, in the root of the repository."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
