"""What the tasks of both Dag files have in common. A job has the place of its task in what was asked for."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

PLACE = "of={{ ti.dag_id }}.{{ run_id }}.{{ ti.task_id }}"
RETRY: Any = {"retries": 3, "retry_delay": timedelta(seconds=1)}

ATHENA: Any = {
    "query": f"select '{PLACE}'",
    "database": "d",
    "output_location": "s3://b/o/",
    "sleep_time": 2,
    "aws_conn_id": "athena",
}
STEP_FUNCTION: Any = {
    "state_machine_arn": os.environ["STATE_MACHINE"],
    "state_machine_input": {"place": PLACE},
    "aws_conn_id": "step_functions",
}
DATABRICKS: Any = {
    "json": {"run_name": PLACE, "notebook_task": {"notebook_path": "/x"}},
    "polling_period_seconds": 2,
}
SSH: Any = {
    "command": f"{os.environ['REMOTE_COMMAND']} {PLACE}",
    "remote_base_dir": os.environ["REMOTE_FOLDER"],
    "ssh_conn_id": "remote",
    "poll_interval": 3,
    "cleanup": "on_success",
}
