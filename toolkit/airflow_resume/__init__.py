"""Airflow tasks that resume instead of starting over."""
