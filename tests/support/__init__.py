"""What the tests share: fakes, services, databases, and runs of a real Airflow."""
