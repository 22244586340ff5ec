"""Runs of Dags on a real Airflow; the Dags are in `dags`."""
