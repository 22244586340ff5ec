"""Looks at what resumes in a running Airflow, and changes it safely, through Airflow's public REST API.

- `api`: the requests, and how to log in.
- `places`: which task instances and assets there are, and the records in their state.
- `job_rows`, `loop_rows`, `mark_rows`: what a record says at a given time. Pure.
- `changes`: the record after a change, and what the next run makes of it. Pure.
- `steering`: makes a change: refuses where it is not safe, writes, and looks whether it has arrived.
- `references`: all references that Airflow has to values in a database of its own.
"""
