"""Looks at what resumes in a running Airflow, and changes it safely, through Airflow's public REST API.

- `api`: the requests, and how to log in.
- `airflowctl`: the login that Airflow's own command has kept.
- `places`: which task instances and assets there are, and the records in their state.
- `job_rows`, `loop_rows`, `mark_rows`: what a record says at a given time. Pure.
- `kinds`: what is shown of each of the three kinds. Pure.
- `changes`, `job_changes`, `loop_changes`, `mark_changes`: the record after a change by a person. Pure.
- `verbs`: what a person asks for, in texts, as one of these changes. Pure.
- `steering`: makes a change: refuses where it is not safe, writes, and looks whether it has arrived.
- `references`: all references that Airflow has to values in a database of its own.
"""
