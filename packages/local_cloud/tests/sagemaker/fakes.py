"""Fake Triton servers, and the archives of models for them."""

import contextlib
import gzip
import io
import json
import os
import select
import socket
import tarfile
import threading
from functools import partial

from tritonstack.triton import (
    TritonEndedError,
    TritonFailedError,
    TritonRequestError,
    TritonResponse,
    TritonTimeoutError,
)
from tritonstack.triton.connections import in_thread, open_stream


def tarball(files):
    """Pack texts or bytes, given by path."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=0)


class BlockingServer:
    """Answers the data plane's requests by the blocking `request` of a fake, in a thread each."""

    async def exchange(self, method, path, **fields):
        return await in_thread(partial(self.request, method, path, **fields))


class ScriptedStream:
    """A streamed response over a real connection: JSON chunks, of which some have a meaning of their own.

    Null waits for `released`, a number of bytes becomes a chunk of that size, and `break` closes the
    connection. A first chunk of `status=N` is the status.
    """

    def __init__(self, body, *, released):
        self._script = json.loads(body)
        self._released = released
        self.left = threading.Event()
        """Set when the reader has closed its end."""
        self._ours, self._theirs = socket.socketpair()
        threading.Thread(target=self._play, daemon=True).start()

    def connect(self):
        return self._theirs

    def _play(self):
        with self._ours as ours, contextlib.suppress(OSError):
            while b"\r\n\r\n" not in ours.recv(1 << 16):
                continue
            status, script = "200", list(self._script)
            if script and str(script[0]).startswith("status="):
                status = script.pop(0).removeprefix("status=")
            kind = "text/event-stream; charset=utf-8"
            head = f"HTTP/1.1 {status} OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
            ours.sendall(head.encode())
            for item in script:
                if item is None:
                    self._wait(ours)
                    continue
                if item == "break":
                    return
                chunk = item.encode() if isinstance(item, str) else b"x" * item
                ours.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            ours.sendall(b"0\r\n\r\n")
            ours.recv(1)
            self.left.set()

    def _wait(self, ours):
        while not self._released.wait(0.02):
            if select.select([ours], [], [], 0)[0]:
                self.left.set()
                raise ConnectionResetError


class StrictFakeTriton(BlockingServer):
    """Fakes a Triton server; the container's Environment is its script.

    FAKE_STARTS   "no": never becomes ready; "never": stays in its start until it is stopped
    FAKE_ANSWER   what it answers to a body of `ask`
    A body of `hold` is answered when `released` is set, `status=N` with that status, `size=N` with so
    many bytes; `slow` and `dead` are
    not answered, and nothing is any more after `die`. It rejects every other method, path and body, and every
    request before it is ready or after it was stopped.
    """

    def __init__(self, order, *, released):
        assert order.model_root.is_dir()
        self.order = order
        self.log_path = order.state_dir / "triton.log"
        self.log_path.write_text("E1121 model: no such tensor\n\nthe server says hello\n")
        self.released = released
        self.holding = threading.Event()
        self.healthy = True
        self._ready = False
        self._stopped = threading.Event()
        self._died = threading.Event()

    async def stream(self, method, path, *, body, headers, timeout_s):
        assert (method, path) == ("POST", "/invocations")
        if self._died.is_set():
            raise TritonEndedError("tritonserver has ended with exit status 139")
        self.streamed = ScriptedStream(body, released=self.released)
        return await open_stream(
            method, path, connect=self.streamed.connect, body=body, headers=headers, timeout_s=timeout_s
        )

    @property
    def running(self):
        return not (self._stopped.is_set() or self._died.is_set())

    def wait_ready(self, *, timeout_s):
        self.startup_timeout_s = timeout_s
        script = self.order.environment.get("FAKE_STARTS", "yes")
        if script == "never":
            self._stopped.wait(timeout_s)
        if script != "yes":
            raise TritonFailedError("tritonserver ended with exit status 1:\nE1121 model: no such tensor")
        self._ready = True

    @property
    def ready(self):
        return self._ready

    @property
    def pid(self):
        return os.getpid()

    def die(self):
        """End without notice, as after kill -9."""
        self._died.set()

    def request(self, method, path, *, body, headers, timeout_s):
        if (method, path) == ("GET", "/ping"):
            return self._answer(200 if self.healthy and self._ready else 400, b"", headers)
        assert (method, path) == ("POST", "/invocations")
        assert self._ready
        if body == b"die":
            self._died.set()
            raise TritonFailedError("tritonserver has ended with exit status 139")
        if self._died.is_set():
            raise TritonEndedError("tritonserver has ended with exit status 139")
        assert self.running, "a request reached a server that was stopped"
        if body == b"ask":
            return self._answer(200, self.order.environment["FAKE_ANSWER"].encode(), headers)
        if body == b"hold":
            self.holding.set()
            assert self.released.wait(30)
            assert self.running, "the server was stopped under a request"
            return self._answer(200, b"held", headers)
        if body.startswith(b"size="):
            return self._answer(200, bytes(int(body.removeprefix(b"size="))), headers)
        if body == b"slow":
            raise TritonTimeoutError(f"no answer within {timeout_s} s")
        if body == b"dead":
            raise TritonRequestError("connection refused")
        return self._answer(int(body.decode().removeprefix("status=")), b'{"error":"its own words"}', headers)

    def stop(self, *, grace_s=30.0):
        self._stopped.set()

    @staticmethod
    def _answer(status, body, headers):
        echoed = {name.lower(): value for name, value in headers.items()}
        return TritonResponse(status=status, headers=echoed, body=body)


class FakeTritons:
    """Starts StrictFakeTritons and records them."""

    def __init__(self):
        self.started = []
        self.released = threading.Event()

    def __call__(self, order):
        server = StrictFakeTriton(order, released=self.released)
        self.started.append(server)
        return server
