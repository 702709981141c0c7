"""Serve sentence embeddings with FastAPI: the peer of the text benchmarks.

    python -m benchmarks.peers.embedding --model onnx --folder FOLDER --port 8000 [--workers 2 --threads 1]

FOLDER has model.onnx and tokenizer.json of a built artifact, or for `--model torch` the source of the model.
Requests and responses have the bodies of Triton's HTTP protocol.

This is the best form that we know for FastAPI on a few cores. One process accepts all connections, because
several split them unevenly. A queue gathers what arrives while the workers compute; a worker takes all that
waits, sorts it by length, and computes it in groups of similar length.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import uvicorn
from fastapi import FastAPI, Request, Response
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

Embeddings = NDArray[np.float32]
Graph = Callable[[NDArray[np.int64], NDArray[np.int64]], Embeddings]


def main() -> None:
    """Read the options and serve until the process is stopped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", choices=("onnx", "torch"), required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, default=2, help="batches that are computed at the same time")
    parser.add_argument("--threads", type=int, default=1, help="threads of each batch")
    parser.add_argument("--batch", type=int, default=64, help="most texts that a worker takes at once")
    parser.add_argument("--group", type=int, default=8, help="texts that are padded and computed together")
    options = parser.parse_args()
    load = onnx_graph if options.model == "onnx" else torch_graph
    embedder = Embedder(
        load(options.folder, options.threads),
        Tokenizer.from_file(str(options.folder / "tokenizer.json")),
        options.group,
    )
    batcher = Batcher(embedder.embed, workers=options.workers, most=options.batch)
    uvicorn.run(application(batcher), host="127.0.0.1", port=options.port, log_level="warning")


def onnx_graph(folder: Path, threads: int) -> Graph:
    """Load a graph that has its pooling in it."""
    import onnxruntime as ort  # noqa: PLC0415 - only one of the two libraries is needed

    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads
    session = ort.InferenceSession(folder / "model.onnx", settings, providers=["CPUExecutionProvider"])

    def run(ids: NDArray[np.int64], mask: NDArray[np.int64]) -> Embeddings:
        return session.run(None, {"input_ids": ids, "attention_mask": mask})[0]

    return run


def torch_graph(folder: Path, threads: int) -> Graph:
    """Load the framework's model; embeddings are the normalized mean of the token vectors."""
    import torch  # noqa: PLC0415 - only one of the two libraries is needed
    from transformers import AutoModel  # noqa: PLC0415

    torch.set_num_threads(threads)
    model = AutoModel.from_pretrained(folder).eval()

    @torch.inference_mode()
    def run(ids: NDArray[np.int64], mask: NDArray[np.int64]) -> Embeddings:
        attention = torch.from_numpy(mask)
        vectors = model(input_ids=torch.from_numpy(ids), attention_mask=attention).last_hidden_state
        weights = attention.unsqueeze(-1).to(vectors.dtype)
        mean = (vectors * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        embeddings: Embeddings = torch.nn.functional.normalize(mean).numpy()
        return embeddings

    return run


class Embedder:
    """Computes texts in groups of similar length."""

    def __init__(self, graph: Graph, tokenizer: Tokenizer, group: int) -> None:
        self._graph, self._tokenizer, self._group = graph, tokenizer, group
        self._padding = int((tokenizer.padding or {}).get("pad_id", 0))
        tokenizer.no_padding()

    def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return one embedding per text."""
        encodings = self._tokenizer.encode_batch_fast(texts)
        order = sorted(range(len(texts)), key=lambda index: len(encodings[index].ids))
        results: list[Embeddings] = [np.empty(0, np.float32)] * len(texts)
        for begin in range(0, len(order), self._group):
            group = order[begin : begin + self._group]
            for index, row in zip(group, self._run([encodings[one] for one in group]), strict=True):
                results[index] = row
        return np.stack(results)

    def _run(self, encodings: Sequence[Encoding]) -> Embeddings:
        shape = (len(encodings), max(len(encoding.ids) for encoding in encodings))
        ids, mask = np.full(shape, self._padding, np.int64), np.zeros(shape, np.int64)
        for row, encoding in enumerate(encodings):
            ids[row, : len(encoding.ids)] = encoding.ids
            mask[row, : len(encoding.ids)] = 1
        return self._graph(ids, mask)


class Batcher:
    """A queue of texts, and workers that each take all that waits."""

    def __init__(self, embed: Callable[[Sequence[str]], Embeddings], *, workers: int, most: int) -> None:
        self._embed, self._most = embed, most
        self._pool = ThreadPoolExecutor(workers)
        self._queue: asyncio.Queue[tuple[list[str], asyncio.Future[Embeddings]]] = asyncio.Queue()
        self._workers = workers
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the workers in the running event loop."""
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self._workers)]

    async def embed(self, texts: list[str]) -> Embeddings:
        """Return the embeddings of one request."""
        answer: asyncio.Future[Embeddings] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((texts, answer))
        return await answer

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            waiting = [await self._queue.get()]
            while not self._queue.empty() and len(waiting) < self._most:
                waiting.append(self._queue.get_nowait())
            texts = [text for request, _ in waiting for text in request]
            try:
                embeddings = await loop.run_in_executor(self._pool, self._embed, texts)
            except Exception as error:
                for _, answer in waiting:
                    answer.set_exception(error)
                continue
            begin = 0
            for request, answer in waiting:
                answer.set_result(embeddings[begin : begin + len(request)])
                begin += len(request)


def application(batcher: Batcher) -> FastAPI:
    """Return the application, which answers POST /invocations and GET /ping."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/ping")
    async def ping() -> Response:
        return Response()

    @app.post("/invocations")
    async def invocations(request: Request) -> Response:
        body: dict[str, Any] = orjson.loads(await request.body())
        embeddings = await batcher.embed(body["inputs"][0]["data"])
        output = {
            "name": "embedding",
            "datatype": "FP32",
            "shape": embeddings.shape,
            "data": embeddings.reshape(-1),
        }
        content = orjson.dumps({"outputs": [output]}, option=orjson.OPT_SERIALIZE_NUMPY)
        return Response(content, media_type="application/json")

    return app


if __name__ == "__main__":
    main()
