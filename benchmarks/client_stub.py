"""An HTTPS server that answers InvokeEndpoint with one fixed embedding, as JSON or in Triton's binary form.

    python -m benchmarks.client_stub CERTIFICATE

Print the port once it listens, and run until killed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.tls import server_context
from tritonstack.client.codec import JSON_CONTENT_TYPE, content_type_for

EMBEDDING = np.random.default_rng(20240917).standard_normal((1, 384)).astype(np.float32)


def reply(body: bytes, content_type: str) -> bytes:
    """Return a reply with the headers that SageMaker sends."""
    head = (
        "HTTP/1.1 200 OK\r\n"
        "x-Amzn-Requestid: 5b0f7a52-7b06-4a32-9d35-d0f2f4a6b1c3\r\n"
        "x-Amzn-Invoked-Production-Variant: AllTraffic\r\n"
        "Date: Mon, 23 Nov 2026 06:00:00 GMT\r\n"
        f"Content-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: keep-alive\r\n\r\n"
    )
    return head.encode() + body


def json_reply() -> bytes:
    """Return the embedding in JSON."""
    output = {"name": "embedding", "datatype": "FP32", "shape": [1, 384], "data": EMBEDDING.ravel().tolist()}
    return reply(json.dumps(_header(output)).encode(), JSON_CONTENT_TYPE)


def binary_reply() -> bytes:
    """Return the embedding in Triton's binary form."""
    data = EMBEDDING.tobytes()
    output = {
        "name": "embedding",
        "datatype": "FP32",
        "shape": [1, 384],
        "parameters": {"binary_data_size": len(data)},
    }
    header = json.dumps(_header(output)).encode()
    return reply(header + data, content_type_for(len(header)))


def _header(output: Mapping[str, object]) -> dict[str, object]:
    return {"model_name": "minilm", "model_version": "1", "outputs": [output]}


class Stub(asyncio.Protocol):
    """One connection: a JSON request gets the JSON reply, any other one the binary reply."""

    JSON, BINARY = json_reply(), binary_reply()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to read requests."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  for the type checker
        self.transport = transport
        self.received = b""

    def data_received(self, data: bytes) -> None:
        """Answer each request that is complete."""
        self.received += data
        while (end := self.received.find(b"\r\n\r\n")) >= 0:
            head = self.received[:end].lower()
            size = end + 4 + int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            if len(self.received) < size:
                return
            self.received = self.received[size:]
            is_json = b"content-type: application/json" in head
            self.transport.write(self.JSON if is_json else self.BINARY)


async def main() -> None:
    """Serve on a free port."""
    context = server_context(Path(sys.argv[1]))
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
