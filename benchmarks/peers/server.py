"""Serve a model with FastAPI: the peer of the serving benchmarks.

    python -m benchmarks.peers.server --engine text-onnx --folder FOLDER --port 8000 [--form '{"group": 16}']

FOLDER has the model: model.onnx, model.json of XGBoost, or the source of a PyTorch model; text engines also
need tokenizer.json. Requests and responses have the bodies of Triton's HTTP protocol, in JSON or in the
binary form.

The server runs on uvloop and httptools, reads and writes JSON with orjson, and computes in batches, as its
form says.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import uvicorn
from fastapi import FastAPI, Request, Response

from benchmarks.peers import even_split
from benchmarks.peers.batching import Batcher
from benchmarks.peers.engines import ENGINES, Engine, loader
from benchmarks.peers.forms import Form

HEADER_SIZE = "json-header-size="
OUTPUTS = {"text": "embedding", "image": "scores", "trees": "output__0"}


def main() -> None:
    """Read the options and serve until the process is stopped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--engine", choices=ENGINES, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--form", type=Form.parse, default=Form(), help="fields of Form as JSON")
    options = parser.parse_args()
    load = loader(options.engine, options.folder, options.form)
    output = OUTPUTS[options.engine.partition("-")[0]]
    make = partial(application, load, options.form, output)
    if options.form.servers > 1:
        even_split.serve(make, servers=options.form.servers, port=options.port)
    else:
        uvicorn.run(make(), host="127.0.0.1", port=options.port, log_level="warning", access_log=False)


def application(load: Callable[[], Engine], form: Form, output: str) -> FastAPI:
    """Return the application, which answers POST /invocations and GET /ping."""
    batcher = Batcher(load, form)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await batcher.start()
        yield

    app = FastAPI(lifespan=lifespan, openapi_url=None)

    @app.get("/ping")
    async def ping() -> Response:
        return Response()

    @app.post("/invocations")
    async def invocations(request: Request) -> Response:
        rows = rows_of(await request.body(), request.headers["content-type"])
        answers = await batcher.compute(rows)
        tensor = {"name": output, "datatype": "FP32", "shape": answers.shape, "data": answers.reshape(-1)}
        reply = {"model_name": "peer", "model_version": "1", "outputs": [tensor]}
        content = orjson.dumps(reply, option=orjson.OPT_SERIALIZE_NUMPY)
        return Response(content, media_type="application/json")

    return app


def rows_of(body: bytes, content_type: str) -> Any:
    """Return the rows of a request's only tensor: texts, or arrays."""
    _, _, size = content_type.partition(HEADER_SIZE)
    header = orjson.loads(memoryview(body)[: int(size)] if size else body)
    tensor = header["inputs"][0]
    if size:
        return np.frombuffer(body, np.float32, offset=int(size)).reshape(tensor["shape"])
    if tensor["datatype"] == "BYTES":
        return tensor["data"]
    return np.array(tensor["data"], np.float32).reshape(tensor["shape"])


if __name__ == "__main__":
    main()
