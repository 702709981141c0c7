"""One process accepts all connections and hands them in turn to server processes.

Servers that accept from the same socket get unequal shares: one may hold most of the connections, which then
wait while the others idle.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
from collections.abc import Callable

import uvicorn
import uvloop
from fastapi import FastAPI

CONNECTIONS_AT_ONCE = 64
READY = b"r"


def serve(application: Callable[[], FastAPI], *, servers: int, port: int) -> None:
    """Serve until the process is stopped."""
    # The servers start before anything starts a thread, and end with this process.
    fork = multiprocessing.get_context("fork")
    channels = []
    for _ in range(servers):
        ours, theirs = socket.socketpair()
        fork.Process(target=_serve, args=(application, theirs), daemon=True).start()
        theirs.close()
        channels.append(ours)
    for channel in channels:
        if channel.recv(1) != READY:
            raise SystemExit("a server process has ended")
    listener = socket.create_server(("127.0.0.1", port), backlog=2048)
    while True:
        for channel in channels:
            connection, _ = listener.accept()
            socket.send_fds(channel, [b"c"], [connection.fileno()])
            connection.close()


def _serve(application: Callable[[], FastAPI], channel: socket.socket) -> None:
    uvloop.run(_serve_connections(application(), channel))


async def _serve_connections(app: FastAPI, channel: socket.socket) -> None:
    """Serve the connections that arrive through a channel, as uvicorn serves its own."""
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    config.load()
    server = uvicorn.Server(config)
    lifespan = config.lifespan_class(config)
    await lifespan.startup()
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    tasks = set()

    def protocol() -> asyncio.Protocol:
        return config.http_protocol_class(
            config=config, server_state=server.server_state, app_state=lifespan.state
        )

    def receive() -> None:
        data, received, _, _ = socket.recv_fds(channel, CONNECTIONS_AT_ONCE, CONNECTIONS_AT_ONCE)
        if not data:
            ended.set_result(None)
        for number in received:
            connection = socket.socket(fileno=number)
            connection.setblocking(False)
            task = loop.create_task(loop.connect_accepted_socket(protocol, connection))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    loop.add_reader(channel, receive)
    channel.send(READY)
    await ended
