"""Stands in for `spark-submit` in cluster mode: it tells the fake cluster of the test, and prints what Spark prints."""

from __future__ import annotations

import json
import os
import sys
import urllib.request


def call(method: str, path: str, body: object = None) -> dict[str, str]:
    url = os.environ["FAKE_SPARK_URL"] + path
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, method=method, data=data)  # noqa: S310
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        return json.loads(answer.read())  # type: ignore[no-any-return]


def main(arguments: list[str]) -> None:
    if "--status" in arguments:
        state = call("GET", f"/v1/submissions/status/{arguments[arguments.index('--status') + 1]}")
        print(f'  "driverState" : "{state["driverState"]}",')
        return
    if "--kill" in arguments:  # a real one asks the port of the master URL, at which no REST server is
        print("SubmitRestConnectionException: Unable to connect to server")
        sys.exit(1)
    made = call("POST", "/drivers", {"arguments": arguments})
    if "error" in made:
        print(made["error"])
        sys.exit(1)
    if "k8s" in " ".join(arguments):
        print(f"INFO LoggingPodStatusWatcherImpl: State changed\n\t pod name: {made['id']}")
    else:
        print(f"INFO Submission successfully created as {made['id']}.")


if __name__ == "__main__":
    main(sys.argv[1:])
