"""A module of the pack whose provider is not installed."""

import airflow.providers.absent  # type: ignore[import-not-found]  # noqa: F401  # pyright: ignore[reportMissingImports]
