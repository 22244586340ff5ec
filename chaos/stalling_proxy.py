"""A proxy between clients and a server, which can stall and cut connections.

It is a process of its own, unlike that of `stalling`: who forks callers must have no threads.

While it stalls, bytes are neither forwarded nor refused, as in a network that is split; then they are delivered, those
of callers that have gone away included. A connection is cut in the middle of the next reply.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection

from tests.support.backends.servers import HOST

CHUNK = 64 * 1024
_FORK = get_context("fork")


class StallingProxy:
    """Forwards a free port to another one.

    Args:
        port: of the server, which may be away now and then.
    """

    def __init__(self, port: int) -> None:
        listening = socket.create_server((HOST, 0), backlog=200)
        self.port: int = listening.getsockname()[1]
        self._orders, orders = _FORK.Pipe()
        self._process = _FORK.Process(target=_run, args=(listening, port, orders), daemon=True)
        self._process.start()
        listening.close()
        orders.close()

    def stall(self, seconds: float) -> None:
        """Forward nothing for so long, from now on."""
        self._orders.send(("stall", seconds))

    def hold(self, seconds: float) -> None:
        """Hold back what comes on the connections that there are; new ones are let through, and overtake them."""
        self._orders.send(("hold", seconds))

    def cut(self, count: int) -> None:
        """Break off the next so many replies in their middle."""
        self._orders.send(("cut", count))

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.join()
        self._orders.close()


def _run(listening: socket.socket, port: int, orders: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    asyncio.run(_Forwarding(port).serve(listening, orders))


class _Gate:
    """Lets nothing through for a while."""

    def __init__(self) -> None:
        self._closed_until = 0.0

    def close(self, seconds: float) -> None:
        self._closed_until = max(self._closed_until, time.monotonic() + seconds)

    async def passed(self) -> None:
        while (left := self._closed_until - time.monotonic()) > 0:  # noqa: ASYNC110  it may be closed for longer meanwhile
            await asyncio.sleep(left)


class _Forwarding:
    def __init__(self, port: int) -> None:
        self._port = port
        self._cuts = 0
        self._gate = _Gate()
        self._own_gates: set[_Gate] = set()
        """Those of the connections that there are."""

    async def serve(self, listening: socket.socket, orders: Connection) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(orders.fileno(), lambda: self._obey(*orders.recv()))
        parent = os.getppid()
        async with await asyncio.start_server(self._forward, sock=listening):
            while os.getppid() == parent:  # noqa: ASYNC110  nothing tells that the parent has ended
                await asyncio.sleep(0.5)

    def _obey(self, order: str, amount: float) -> None:
        match order:
            case "cut":
                self._cuts += int(amount)
            case "stall":
                self._gate.close(amount)
            case "hold":
                for gate in self._own_gates:
                    gate.close(amount)

    async def _forward(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        await self._gate.passed()
        try:
            server, to_server = await asyncio.open_connection(HOST, self._port)
        except OSError:
            to_client.close()
            return
        own = _Gate()
        self._own_gates.add(own)
        ways = [
            asyncio.ensure_future(self._pump(client, to_server, own, replies=False)),
            asyncio.ensure_future(self._pump(server, to_client, own, replies=True)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for writer in (to_client, to_server):
            writer.close()
        await asyncio.wait(ways)
        self._own_gates.discard(own)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, own: _Gate, *, replies: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._gate.passed()
                await own.passed()
                if replies and self._cuts > 0:
                    self._cuts -= 1
                    writer.write(data[: len(data) // 2])
                    return
                writer.write(data)
                await writer.drain()
            await self._gate.passed()
            await own.passed()
