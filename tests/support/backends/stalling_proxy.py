"""A proxy between a client and its server that can hold back all data for a while and deliver it later."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread


class StallingProxy:
    """Forwards connections to a server, unless it stalls.

    `stall` holds back data of either side from then on, and new connections; `go_on` delivers what was
    held, whether or not the client is still there.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._flows = Event()
        self._flows.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self._threads: list[Thread] = []
        self.port: int = self._listener.getsockname()[1]
        self._begin(self._listen)

    def stall(self) -> None:
        """Hold everything back from now on."""
        self._flows.clear()

    def go_on(self) -> None:
        """Deliver what was held back."""
        self._flows.set()

    def stop(self) -> None:
        """End it, and all connections through it."""
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._flows.set()
        for thread in self._threads:
            thread.join(10)
        for each in self._sockets:
            each.close()

    def _begin(self, work: object, *given: object) -> None:
        self._threads.append(Thread(target=work, args=given, daemon=True))  # type: ignore[arg-type]
        self._threads[-1].start()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                self._begin(self._forward, client)

    def _forward(self, client: socket.socket) -> None:
        self._flows.wait()
        with suppress(OSError):
            server = socket.create_connection(self._target)
            self._sockets.append(server)
            self._begin(self._pump, server, client)
            self._pump(client, server)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self._flows.wait()
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@contextmanager
def stalling_proxy(host: str, port: int) -> Iterator[StallingProxy]:
    """One that runs."""
    proxy = StallingProxy(host, port)
    try:
        yield proxy
    finally:
        proxy.stop()
