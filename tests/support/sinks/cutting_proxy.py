"""A proxy before a database server that loses the reply of a commit, or the commit itself, and then the connection."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from sqlalchemy import make_url

from tests.support.backends.databases import text_of


class CuttingProxy:
    """Forwards bytes in both directions."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self.lose: Literal["reply", "commit"] | None = None
        """What to lose next."""
        self.lost = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        for each in [self._socket, *self._open]:
            each.close()
        self._thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                try:
                    server = socket.create_connection(self._server)
                except OSError:  # the server is away
                    client.close()
                    continue
                self._open += [client, server]
                threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        """Forward what the client says, and after each message what the server answers."""
        answers = threading.Thread(target=self._forward_answers, args=(server, client), daemon=True)
        answers.start()
        with suppress(OSError):
            while said := client.recv(1 << 16):
                if self.lose is not None and b"COMMIT" in said:
                    self._cut(client, server, said)
                    return
                server.sendall(said)
        self._shut(client, server)

    def _forward_answers(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while answer := server.recv(1 << 16):
                client.sendall(answer)
        self._shut(client, server)

    def _cut(self, client: socket.socket, server: socket.socket, commit: bytes) -> None:
        what, self.lose = self.lose, None
        self.lost += 1
        client.shutdown(socket.SHUT_WR)  # whatever is answered does not arrive any more
        if what == "reply":
            server.sendall(commit)
            server.shutdown(socket.SHUT_WR)  # the server carries the commit out, and then sees the end
        self._shut(client, server) if what == "commit" else None

    def _shut(self, *ends: socket.socket) -> None:
        for each in ends:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextmanager
def cutting(url: str) -> Iterator[tuple[CuttingProxy, str]]:
    """A proxy before the server of this URL, and the URL through it."""
    place = make_url(url)
    proxy = CuttingProxy(str(place.host), int(place.port or 0))
    try:
        yield proxy, text_of(place.set(host="127.0.0.1", port=proxy.port))
    finally:
        proxy.close()
