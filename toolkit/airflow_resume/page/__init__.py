"""The page "Resume" in Airflow's own UI: what resumes, whether it is stuck, and the changes of a person on call.

It runs in Airflow's API server, and only if `[airflow_resume] page` is on.

- `plugin`: tells Airflow of the page. It is loaded in each of Airflow's processes, so it imports nothing at first.
- `app`: the routes, each with its own check of what its user may see.
- `access`: these checks, and the token without which nothing is changed.
- `queries`: the records of a page, by one query of Airflow's database. `steered`: makes a change there.
- `views`, `drawings`, `advice`: what is shown of the records. Pure.
- `forms`: what a person has typed.
"""
