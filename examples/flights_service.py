"""A flights API and a warehouse on loopback, which count their requests.

    python flights_service.py --port 0 --database warehouse.db --port-file port

| request | answer |
|---|---|
| `GET /flights?token=T&limit=N` and one of `from=ISO&to=ISO`, `since=ISO` | `{"items", "next", "total"}` |
| `POST /clock {"now": ISO or null}`, `GET /clock` | `{"now"}`: later rows have not arrived yet |
| `POST /warehouse/TABLE {"rows": [...], "batch": id or null}` | `{"loaded": n}`, one transaction |
| `GET /warehouse/TABLE/audit?until=ISO` | `{"rows_loaded", "rows_duplicated", "rows_lost"}` |
| `GET /stats` | for each label (header `X-Run-Label`): pages asked, distinct, repeated; loads |
| `POST /holds`, `GET /holds/ID`, `DELETE /holds/ID` | see `holds` |
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

from flights_source import FlightsSource, instant
from json_request import JsonText, NotFoundError, Request, RequestError
from json_service import JsonService, start_arguments
from warehouse import Warehouse

T = TypeVar("T")

_MOST_ROWS = 10_000


@dataclass
class _Asked:
    """The requests of one label."""

    page_requests: int = 0
    pages: set[tuple[str | None, ...]] = field(default_factory=set)
    loads: int = 0

    def summary(self) -> dict[str, int]:
        return {
            "page_requests": self.page_requests,
            "distinct_pages": len(self.pages),
            "repeated_page_requests": self.page_requests - len(self.pages),
            "loads": self.loads,
        }


class FlightsService(JsonService):
    """Serve a source of flights, and a warehouse to load them into."""

    def __init__(self, source: FlightsSource, *, database: Path, port: int = 0) -> None:
        super().__init__(port=port)
        self._source = source
        self._warehouse = Warehouse(database)
        self._lock = threading.Lock()
        self._asked: defaultdict[str, _Asked] = defaultdict(_Asked)

    def respond(self, request: Request) -> object:
        """Answer by the table at the top of the module."""
        match request.route:
            case ("GET", "flights"):
                return self._page(request)
            case ("GET", "clock"):
                return {"now": self._source.now}
            case ("POST", "clock"):
                return self._set_clock(request.optional("now", str))
            case ("POST", "warehouse", table):
                return self._load(table, request)
            case ("GET", "warehouse", table, "audit"):
                ids = _understood(self._source.ids, until=request.query.get("until"))
                return asdict(self._warehouse.audit(table, ids))
            case ("GET", "stats"):
                return self._stats()
            case _:
                raise NotFoundError(f"{request.method} {request.path} is not offered")

    def close(self) -> None:
        """Close the warehouse."""
        self._warehouse.close()

    def _page(self, request: Request) -> JsonText:
        asked = request.query.get
        token, start, end, after = asked("token"), asked("from"), asked("to"), asked("since")
        page = _understood(
            self._source.page, token=token, start=start, end=end, after=after, limit=_limit(request.query)
        )
        with self._lock:
            counts = self._asked[request.label]
            counts.page_requests += 1
            counts.pages.add((start, end, after, token))
        following = "null" if page.next_token is None else f'"{page.next_token}"'
        return JsonText(f'{{"items": [{", ".join(page.rows)}], "next": {following}, "total": {page.total}}}')

    def _set_clock(self, now: str | None) -> object:
        if now is not None:
            _understood(instant, now)
        self._source.now = now
        return {"now": now}

    def _load(self, table: str, request: Request) -> object:
        batch = request.optional("batch", (str, int))
        rows = [_id_and_hour(row) for row in request.field("rows", list)]
        loaded = self._warehouse.load(table, rows, batch=None if batch is None else str(batch))
        with self._lock:
            self._asked[request.label].loads += 1
        return {"loaded": loaded}

    def _stats(self) -> object:
        with self._lock:
            return {label: asked.summary() for label, asked in self._asked.items()}


def _limit(query: Mapping[str, str]) -> int:
    limit = _understood(int, query.get("limit", "1000"))
    if not 1 <= limit <= _MOST_ROWS:
        raise RequestError(f"limit must be between 1 and {_MOST_ROWS}, not {limit}")
    return limit


def _id_and_hour(row: object) -> tuple[int, str]:
    match row:
        case {"id": int(row_id), "time_hour": str(time_hour)}:
            return row_id, time_hour
        case _:
            raise RequestError(f"a row needs an id and a time_hour: {row!r}")


def _understood(function: Callable[..., T], *args: object, **options: object) -> T:
    # What a client wrote in a query may be anything; it is told what could not be read.
    try:
        return function(*args, **options)
    except ValueError as error:
        raise RequestError(str(error)) from error


def main() -> None:
    """Serve the published flights until stopped."""
    parser = start_arguments(main.__doc__ or "")
    parser.add_argument("--database", type=Path, required=True, help="the file of the warehouse")
    parser.add_argument("--flights", type=Path, help="another zipped CSV file")
    arguments = parser.parse_args()
    source = FlightsSource.published(arguments.flights)
    FlightsService(source, database=arguments.database, port=arguments.port).serve(arguments.port_file)


if __name__ == "__main__":
    main()
