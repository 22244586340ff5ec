"""Small servers on loopback that page like the APIs of docs/loop-libraries.md, over rows that a test may change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

SIZE = 2
"""Rows per page."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """A request."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    headers: Mapping[str, str]

    def json(self) -> Any:
        return json.loads(self.body or b"{}")


@dataclass(frozen=True)
class Reply:
    """The answer; anything but bytes is sent as JSON."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Callable[[Call], Reply]


@contextmanager
def served(answer: Answer) -> Iterator[str]:
    """The URL of a server that answers with a function."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            reply = answer(
                Call(
                    method=self.command,
                    path=parts.path,
                    query=dict(parse_qsl(parts.query, keep_blank_values=True)),
                    body=body,
                    headers=dict(self.headers.items()),
                )
            )
            content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            # Connections are not kept, so that none is left open by a client that nobody closed.
            for name, value in {"Content-Type": "application/json", "Connection": "close", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_DELETE = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False  # closing waits for those who answer
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class PagedRows:
    """The rows that an API pages over, with an ascending `id`."""

    def __init__(self, count: int = 7) -> None:
        self.rows: list[dict[str, Any]] = [{"id": number} for number in range(1, count + 1)]
        self.calls: list[Call] = []

    def after(self, place: int, size: int = SIZE) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["id"] > place][:size]

    def __call__(self, call: Call) -> Reply:
        self.calls.append(call)
        return self.answer(call)

    def answer(self, call: Call) -> Reply:
        raise NotImplementedError


class LinkHeaders(PagedRows):
    """As GitHub: `Link: <...>; rel="next"`, here relative to the page. It answers "busy" while `busy` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.busy: list[str] = []
        """The Retry-After of the next answers."""

    def answer(self, call: Call) -> Reply:
        if self.busy:
            return Reply({"message": "rate limited"}, 429, {"Retry-After": self.busy.pop(0)})
        found = self.after(int(call.query.get("after", 0)))
        ahead = self.after(found[-1]["id"]) if found else []
        link = {"Link": f'</first>; rel="first", <?after={found[-1]["id"]}>; rel="next"'} if ahead else {}
        return Reply(found, headers=link)


class Cursors(PagedRows):
    """A cursor in the body, and HTTP 200 only."""

    def answer(self, call: Call) -> Reply:
        found = self.after(int(call.query.get("cursor", "c0")[1:]))
        ahead = self.after(found[-1]["id"]) if found else []
        return Reply({"orders": found, "next_cursor": f"c{found[-1]['id']}" if ahead else None})


class Stripe(PagedRows):
    """`has_more` and `starting_after`, which must be the id of an object that is there."""

    def answer(self, call: Call) -> Reply:
        place = call.query.get("starting_after")
        if place is not None and not any(f"cus_{row['id']}" == place for row in self.rows):
            problem = {"code": "resource_missing", "param": "starting_after", "message": f"No such customer: '{place}'"}
            return Reply({"error": problem}, 400)
        number = 0 if place is None else int(place.removeprefix("cus_"))
        found = self.after(number)
        has_more = bool(found and self.after(found[-1]["id"]))
        return Reply({"object": "list", "data": [{"id": f"cus_{row['id']}"} for row in found], "has_more": has_more})


class GraphQL(PagedRows):
    """A connection in Relay's way: `endCursor` is there on the last page too. `errors` come with status 200."""

    def __init__(self) -> None:
        super().__init__()
        self.problem: str | None = None

    def answer(self, call: Call) -> Reply:
        if self.problem:
            message, self.problem = self.problem, None
            return Reply({"data": {"orders": None}, "errors": [{"message": message}]})
        found = self.after(int(call.json()["variables"]["after"] or 0))
        info = {"endCursor": str(found[-1]["id"]), "hasNextPage": bool(self.after(found[-1]["id"]))}
        return Reply({"data": {"orders": {"nodes": found, "pageInfo": info}}})


class Google(PagedRows):
    """`nextPageToken`, which comes only when `fields` asks for it, and the second page is empty."""

    def __init__(self) -> None:
        super().__init__()
        self.expired = False

    def answer(self, call: Call) -> Reply:
        token = call.query.get("pageToken", "0")
        if token != "0" and self.expired:  # noqa: S105
            self.expired = False
            return Reply({"error": {"code": 400, "message": "Invalid Value", "location": "pageToken"}}, 400)
        if token == "empty":  # noqa: S105
            return Reply({"nextPageToken": "2"})
        found = self.after(int(token))
        following = "empty" if token == "0" else str(found[-1]["id"])  # noqa: S105
        answer: dict[str, Any] = {"files": found}
        if self.after(found[-1]["id"]) and "nextPageToken" in call.query.get("fields", "nextPageToken"):
            answer["nextPageToken"] = following
        return Reply(answer)


class Salesforce(PagedRows):
    """SOQL over REST: a locator gives the next batch, and the server may forget it."""

    def __init__(self) -> None:
        super().__init__()
        self.forgotten = False
        self.queries = 0

    def answer(self, call: Call) -> Reply:
        if "q" in call.query:
            self.queries += 1
            self.forgotten, place = False, 0
        elif self.forgotten:
            return Reply([{"errorCode": "INVALID_QUERY_LOCATOR", "message": "invalid query locator"}], 400)
        else:
            place = int(call.path.rsplit("-", 1)[1])
        found = self.after(place)
        answer: dict[str, Any] = {"totalSize": len(self.rows), "done": True, "records": found}
        if self.after(found[-1]["id"]):
            base = call.path.rsplit("/query", 1)[0]
            answer |= {"done": False, "nextRecordsUrl": f"{base}/query/01gX-{found[-1]['id']}"}
        return Reply(answer)


class Elasticsearch(PagedRows):
    """`_search` in the order of (day, id), after the sort values of a hit; points in time are ids that may go."""

    def __init__(self) -> None:
        super().__init__()
        for row in self.rows:
            row["day"] = 20 + row["id"] // 4  # 20, 20, 20, 21, 21, 21, 21: ties at the edge of a page
        self.opened = 0
        self.points: dict[str, list[dict[str, Any]]] = {}

    def answer(self, call: Call) -> Reply:
        headers = {
            "X-Elastic-Product": "Elasticsearch",
            "Content-Type": "application/vnd.elasticsearch+json;compatible-with=9",
        }
        if call.path.endswith("/_pit"):
            if call.method == "DELETE":
                return Reply({"succeeded": True}, headers=headers)
            self.opened += 1
            self.points[f"pit-{self.opened}"] = list(self.rows)
            return Reply({"id": f"pit-{self.opened}"}, headers=headers)
        asked = call.json()
        point = asked.get("pit", {}).get("id")
        if point is not None and point not in self.points:
            problem = {"type": "search_context_missing_exception", "reason": "No search context found"}
            return Reply({"error": {"root_cause": [problem], **problem}, "status": 404}, 404, headers)
        rows = self.rows if point is None else self.points[point]
        names = [name for each in asked["sort"] for name in ([each] if isinstance(each, str) else each)]
        hits = sorted(
            ([row["id"] if name == "_shard_doc" else row[name] for name in names], row["id"], row) for row in rows
        )
        after = asked.get("search_after")
        found = [hit for hit in hits if after is None or hit[0] > after][: min(SIZE, asked["size"])]
        answer: dict[str, Any] = {
            "timed_out": False,
            "_shards": {"failed": 0},
            "hits": {"hits": [{"_id": str(key), "_source": row, "sort": sort} for sort, key, row in found]},
        }
        return Reply(answer | ({} if point is None else {"pit_id": point}), headers=headers)


class S3(PagedRows):
    """`ListObjectsV2`: keys and, with a delimiter, prefixes; the second page is empty, as among delete markers."""

    def answer(self, call: Call) -> Reply:
        token = call.query.get("continuation-token", "t0")
        found = [] if token == "empty" else self.after(int(token[1:]))  # noqa: S105
        if token == "t0":  # noqa: S105
            following = "empty"
        elif token == "empty":  # noqa: S105
            following = f"t{SIZE}"
        else:
            following = f"t{found[-1]['id']}" if self.after(found[-1]["id"]) else ""
        contents = "".join(f"<Contents><Key>k{row['id']}</Key><Size>1</Size></Contents>" for row in found)
        if "delimiter" in call.query:
            contents += "".join(f"<CommonPrefixes><Prefix>p{row['id']}/</Prefix></CommonPrefixes>" for row in found)
        more = f"<NextContinuationToken>{quote(following)}</NextContinuationToken>" if following else ""
        text = (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>b</Name><KeyCount>{len(found)}</KeyCount><MaxKeys>{SIZE}</MaxKeys>"
            f"<IsTruncated>{'true' if following else 'false'}</IsTruncated>{contents}{more}</ListBucketResult>"
        )
        return Reply(text.encode(), headers={"Content-Type": "application/xml"})


class DynamoDB(PagedRows):
    """`Scan`, whose `LastEvaluatedKey` is an object."""

    def answer(self, call: Call) -> Reply:
        asked = call.json()
        start = asked.get("ExclusiveStartKey", {"id": {"N": "0"}})
        found = self.after(int(start["id"]["N"]), min(SIZE, asked.get("Limit", SIZE)))
        items = [{"id": {"N": str(row["id"])}} for row in found]
        answer: dict[str, Any] = {"Items": items, "Count": len(items), "ScannedCount": len(items)}
        if found and self.after(found[-1]["id"]):
            answer["LastEvaluatedKey"] = items[-1]
        return Reply(answer, headers={"Content-Type": "application/x-amz-json-1.0"})
