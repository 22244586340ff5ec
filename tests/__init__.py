"""The tests: unit, contract, crashes, and on a real Airflow; `support` is what they share."""
