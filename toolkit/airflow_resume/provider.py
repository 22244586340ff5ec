"""The metadata that every provider gives to Airflow: our section of its configuration, and which options are secret.

If a provider says that an option is sensitive, Airflow hides it from its API, and accepts its `_cmd` and `_secret`
forms. Airflow reads this in every process, so nothing else is imported here.

The plugin is not in it: it has an entry point of its own (`airflow.plugins`), which may give None. If it was named here
as well, it would be loaded twice, and Airflow would warn of it in each process where the page is off.
"""

from __future__ import annotations

from typing import Any

SECTION = "airflow_resume"


def get_provider_info() -> dict[str, Any]:
    """Airflow's metadata of a provider, found by the entry point `apache_airflow_provider`."""
    return {
        "package-name": "airflow-resume",
        "name": "Airflow Resume",
        "description": "Tasks that resume instead of starting over.",
        "extra-links": ["airflow_resume_mixins.job_link.JobLink"],
        "config": {
            SECTION: {
                "description": "State that tasks resume from, and where it is kept.",
                "options": {
                    "backend_url": _option(
                        "The database of SqlStoreBackend, as SQLAlchemy writes it. May be given as a command"
                        " (backend_url_cmd) or by the name of a secret (backend_url_secret).",
                        example="postgresql://user:password@host/state",
                        sensitive=True,
                    ),
                    "backend_conn_id": _option(
                        "Instead of backend_url: the id of a connection of the type postgres, mysql or sqlite.",
                        example="resume_state",
                    ),
                    "state_url": _option(
                        "Loops, jobs and watermarks keep their state in this database, and not in Airflow's state"
                        " stores, which Airflow 3.0 to 3.2 do not have. As SQLAlchemy writes it; may be given as a"
                        " command (state_url_cmd) or by the name of a secret (state_url_secret).",
                        example="postgresql://user:password@host/state",
                        sensitive=True,
                    ),
                    "state_conn_id": _option(
                        "Instead of state_url: the id of a connection of the type postgres, mysql or sqlite.",
                        example="resume_state",
                    ),
                    "backend_inline_bytes": _option(
                        "Values smaller than this many bytes of JSON stay in Airflow, and its UI shows them.",
                        kind="integer",
                        default="4096",
                    ),
                    "backend_on_dangling": _option(
                        "What a reference without a value gives: an error (raise), or None (missing).", default="raise"
                    ),
                    "backend_keep_versions": _option(
                        "How many versions of a value are kept, the last one included.", kind="integer", default="1"
                    ),
                    "backend_codec": _option(
                        "Encrypts values: fernet, with Airflow's keys, or an object to import (module.name) with"
                        " methods encode and decode. By default they are kept in plain text.",
                        example="fernet",
                    ),
                    "deployment": _option(
                        "A name for this Airflow, which no other Airflow that uses the same job systems has."
                        " By default it is made from [api] base_url.",
                        example="production",
                    ),
                    "drain_file": _option(
                        "A file that is touched when a worker begins to shut down: by a Celery worker itself, otherwise"
                        " by a preStop hook or ExecStop. Loops and waits for jobs then leave the worker, and come back"
                        " in the same try. An absolute path on a disk of the worker.",
                        example="/run/airflow/drain",
                    ),
                    "page": _option(
                        "Show the page Resume in Airflow's UI: tabs at Dags, Dag runs and task instances, and"
                        " Watermarks in the navigation. It is read when the API server starts.",
                        kind="boolean",
                        default="False",
                    ),
                    "upgrade": _option(
                        "Operators whose tasks become resumable when their Dag is parsed: modules of"
                        " airflow_resume_mixins.providers, classes in them, or paths of classes of your own.",
                        example="databricks, amazon.AthenaOperator, my_company.operators.TrainOperator",
                    ),
                    "upgrade_except": _option(
                        "Tasks and Dags that upgrade leaves alone: dag_id.task_id or dag_id, with * for any text.",
                        example="billing, sales_*.train",
                    ),
                },
            }
        },
    }


def _option(
    description: str,
    *,
    kind: str = "string",
    default: str | None = None,
    example: str | None = None,
    sensitive: bool = False,
) -> dict[str, Any]:
    return {
        "description": description,
        "type": kind,
        "default": default,
        "example": example,
        "version_added": "0.1.0",
        "sensitive": sensitive,
    }
