"""The forms in which a peer can serve: processes, threads, and how rows become batches."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Form:
    """How a peer divides the machine and its batches."""

    servers: int = 1
    """HTTP processes. One process accepts all connections and hands each server its equal share."""
    workers: int = 2
    """Batches that each server computes at the same time; 0 computes in its event loop."""
    threads: int = 1
    """Threads of each batch."""
    isolated: bool = False
    """Whether the workers are processes instead of threads."""
    group: int = 8
    """Rows that are padded and computed together."""
    sort: bool = True
    """Whether a worker sorts its rows by length before it groups them."""
    most: int = 64
    """Most requests that a worker takes from the queue at once."""

    def to_json(self) -> str:
        """Serialize the form for the command line of a peer."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Form:
        """Read a serialized form."""
        return cls(**json.loads(text))

    def __str__(self) -> str:
        kind = "process" if self.isolated else "thread"
        compute = f"{self.workers} {kind} worker(s)" if self.workers else "event loop"
        order = "sorted" if self.sort else "as they arrive"
        servers = f"{self.servers} servers, each " if self.servers > 1 else ""
        batch = f"batches of up to {self.most} in groups of {self.group}, {order}"
        return f"{servers}{compute} x {self.threads} thread(s), {batch}"
