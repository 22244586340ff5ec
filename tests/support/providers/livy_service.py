"""Apache Livy's batches on loopback, as its server answers (read in its source, 0.9): enough for `LivyOperator`.

| request | answer |
|---|---|
| `POST /batches {"file", "name", ...}` | the batch; a name that is in use is refused with 400 and starts nothing |
| `GET /batches/ID`, `GET /batches/NAME` | the batch, 404 when there is none (any more) |
| `GET /batches/ID/state` | `{"id", "state"}` |
| `GET /batches/ID/log` | `{"id", "from", "total", "log"}` |
| `DELETE /batches/ID` | kills and forgets the batch |

Ids are ints from 0. A batch goes from one state of its script to the next when its state is asked for.
"""

from __future__ import annotations

from json_request import NotFoundError, Request, RequestError
from json_service import JsonService
from tests.support.providers.scripted_jobs import ScriptedJob, ScriptedJobs

BRIEF = ("starting", "running", "success")
ENDLESS = ("running",)
LOG_LINES = 3


class LivyService(JsonService):
    """A Livy server without Spark. Tests steer and check it by `batches`."""

    def __init__(self, *, states: tuple[str, ...] = BRIEF, port: int = 0) -> None:
        super().__init__(port=port)
        self.batches: ScriptedJobs[str]
        self.restart(states=states)

    def restart(self, *, states: tuple[str, ...]) -> None:
        """Forget all batches and start ids at 0 again, like a Livy without recovery."""
        self.batches = ScriptedJobs(ends=frozenset({"success", "dead", "killed", "error"}), states=states)

    def respond(self, request: Request) -> object:
        """Answer by the table at the top of the module."""
        match request.route:
            case ("POST", "batches"):
                return _view(self._submit(request))
            case ("GET", "batches", id_or_name):
                return _view(self._batch(id_or_name))
            case ("GET", "batches", number, "state"):
                return {"id": int(number), "state": self.batches.look(int(number))}
            case ("GET", "batches", number, "log"):
                return self._log(self._batch(number), int(request.query.get("from", 0)))
            case ("DELETE", "batches", number):
                self.batches.delete(int(number), "killed")
                return {"msg": "deleted"}
            case _:
                raise NotFoundError(f"{request.method} {request.path} is not offered")

    def _submit(self, request: Request) -> ScriptedJob[str]:
        request.field("file", str)
        name = request.optional("name", str)
        with self.batches.lock:
            if name is not None and self.batches.named(name) is not None:
                raise RequestError(f"Rejected, Reason: Duplicate session name: {name}")
            return self.batches.submit(name)

    def _batch(self, id_or_name: str) -> ScriptedJob[str]:
        if id_or_name.isdecimal():
            return self.batches.get(int(id_or_name))
        if (batch := self.batches.named(id_or_name)) is None:
            raise NotFoundError(f"Session '{id_or_name}' not found.")
        return batch

    def _log(self, batch: ScriptedJob[str], start: int) -> object:
        lines = [f"line {number} of batch {batch.number}" for number in range(LOG_LINES)]
        return {"id": batch.number, "from": start, "total": LOG_LINES, "log": lines[start:]}


def _view(batch: ScriptedJob[str]) -> object:
    return {"id": batch.number, "name": batch.name, "state": batch.state, "appId": app_id(batch.number), "log": []}


def app_id(number: int) -> str:
    """The id that the cluster gives the batch."""
    return f"application_{number:04}"
