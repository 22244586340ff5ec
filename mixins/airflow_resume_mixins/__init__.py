"""Operator mixins over airflow_resume."""
