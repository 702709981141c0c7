"""Threads of the models in a container: instances x threads = vCPUs.

By default, ONNX Runtime and PyTorch start a thread per core in every model instance, and the threads of
several instances compete for the same cores. An artifact holds no thread counts, so its digest does not
depend on the instance type: the endpoint sets them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

GRAPH_INSTANCES = 2
"""Default number of instances of a graph on a CPU: one reads and writes tensors while the other computes."""
LARGE_GRAPH_BYTES = 1 << 30
"""From this size on, a graph has one instance by default: each instance loads its own copy."""
GRAPH_THREADS = frozenset({"intra_op_thread_count", "inter_op_thread_count"})
"""Parameters of an ONNX model that set the threads of its session; a shared pool ignores them."""
TREE_THREADS = "cpu_nthread"
"""Parameter of a tree model that sets its threads; Triton's backend rejects more than OpenMP allows."""
OPENMP = "OMP_NUM_THREADS"
"""Threads per instance of PyTorch, tree, and Python models."""
RAYON = "RAYON_NUM_THREADS"
"""Threads per instance of a tokenizer."""
HTTP_THREADS = (2, 8)
"""Fewest and most threads of Triton's HTTP server. By default it has 8, which take a third more CPU time per
request on 2 vCPUs than 2 threads."""
_GRAPHS = "--backend-config=onnxruntime,"
_SETTINGS = re.compile(r"onnxruntime,(enable-global-threadpool|intra_op_thread_count|inter_op_thread_count)=")


def graph_instances(size_bytes: int) -> int:
    """Return the default number of instances of a graph on a CPU, from the size of its files."""
    return 1 if size_bytes >= LARGE_GRAPH_BYTES else GRAPH_INSTANCES


class Threads(NamedTuple):
    """What the thread counts of a container depend on."""

    vcpus: int
    """vCPUs of the container."""
    instances: int = GRAPH_INSTANCES
    """The most instances that one of its models has on the CPU."""
    graphs_decide: bool = False
    """Whether an ONNX model sets the threads of its session."""
    least: int = 0
    """The most threads that a tree model asks for."""

    @property
    def per_instance(self) -> int:
        """Return the number of threads that an instance computes with."""
        return max(1, self.vcpus // self.instances)

    @property
    def http(self) -> int:
        """Return the number of threads that read requests and write responses."""
        least, most = HTTP_THREADS
        return min(most, max(least, self.vcpus))

    def variables(self) -> dict[str, str]:
        """Return the environment variables for libraries that start threads of their own."""
        return {OPENMP: str(max(self.per_instance, self.least)), RAYON: str(self.per_instance)}

    def arguments(self, variables: str) -> list[str]:
        """Return the tritonserver options for ONNX Runtime; none if `given` has any of them.

        Its backend reads no environment variable. In one pool for all sessions, N threads are N - 1 workers
        and the thread of the instance that calls.
        """
        if self.graphs_decide or _SETTINGS.search(variables):
            return []
        shared = max(1, self.vcpus - self.instances + 1)
        return [f"{_GRAPHS}enable-global-threadpool=1", f"{_GRAPHS}intra_op_thread_count={shared}"]
