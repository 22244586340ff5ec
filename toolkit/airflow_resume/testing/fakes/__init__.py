"""Stand-ins for Airflow and for job systems."""
