"""A setting of the section `[airflow_resume]` of Airflow's configuration, read when it is needed."""

from __future__ import annotations

import re

from airflow_resume.errors import BackendSettingError

SECTION = "airflow_resume"


def configured(name: str) -> str | None:
    """A setting, stripped, because the output of a command ends with a line break; None if it is not set.

    Raises:
        BackendSettingError: it cannot be read. Neither its text nor what its command says is quoted: there may be a
            secret in either.
    """
    from airflow_resume.compat import conf

    why = "it cannot be read"
    try:
        return (conf.get(SECTION, name, fallback=None) or "").strip() or None
    except Exception as error:  # noqa: BLE001  of the command, of a secrets backend, or of the file
        if str(error).startswith("Cannot execute"):
            code = re.search(r"Error code is: (-?\d+)", str(error).partition(". ")[2])
            why = f"its command failed{f' with {code[1]}' if code else ''}"
        elif isinstance(error, (OSError, ValueError)):
            why = f"its command cannot be run ({type(error).__name__})"
        else:
            why = f"it cannot be read ({type(error).__name__})"
    # Raised here, without a context, because the error above quotes the command and what it printed.
    raise BackendSettingError(
        f"The setting [{SECTION}] {name} of the state backend: {why}.",
        f"Run `airflow config get-value {SECTION} {name}`, which prints it or says what is wrong; see {name}_cmd and"
        f" {name}_secret too.",
        setting=name,
    )
