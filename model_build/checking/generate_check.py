"""Serve a packed generative model as an endpoint does, and check it with `generate`.

There is no framework to compare with. The check proves that the archive loads, that every test text gets a
text answer, and that greedy decoding repeats its answer. Only single-model endpoints serve such archives, so
multi-model hosting is not checked.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from model_build.checking.served_model import ServingReport, served_by
from model_build.errors import ServingError
from model_build.store.archive import PackedArchive, unpack_own
from tritonstack.records.manifests import GenerationReport, LatencyReport
from tritonstack.reference.container_variables import ContainerOptions, container_variables
from tritonstack.runtime import TritonInstallation, TritonServer
from tritonstack.runtime.server import SINGLE_MODEL_ROOT

READY_WITHIN_S = 1800.0
"""Loading gigabytes, compiling, and profiling take minutes."""
REQUEST_WITHIN_S = 120.0
TIMES = 2
MAX_TOKENS = 16
WITHOUT_CHANCE = {"temperature": 0, "seed": 0, "max_tokens": MAX_TOKENS, "ignore_eos": True}
"""Greedy decoding with a fixed number of tokens, so that times are comparable."""
SHOWN = 500


@dataclass(frozen=True, kw_only=True)
class GenerateCheck:
    """What to serve, and the texts to send."""

    installation: TritonInstallation
    packed: PackedArchive
    entry: str
    texts: Sequence[str]
    work: Path
    """Folder for unpacked files and server logs."""

    def run(self) -> ServingReport:
        """Serve the archive and send every text; raise ServingError on a wrong answer."""
        if not self.texts:
            raise ServingError(
                f"{self.entry!r} has no test inputs to check",
                remedy="add texts to `test_inputs` in model.yaml",
            )
        root = self.work / "single"
        unpack_own(self.packed, root)
        with TritonServer.start(
            installation=self.installation,
            model_root=root,
            environment=container_variables({}, ContainerOptions(self.entry, generates=True)),
            state_dir=self.work / "single-server",
        ) as server:
            if server.model_root != SINGLE_MODEL_ROOT:
                raise ServingError(
                    f"the engine's arguments name {SINGLE_MODEL_ROOT}, which this machine cannot mount for "
                    "the server",
                    remedy="build where user namespaces are allowed, for example in a privileged container",
                )
            server.wait_ready(timeout_s=READY_WITHIN_S)
            times = [self._ask_again(server, text) for text in self.texts]
        p50, p99 = np.percentile(times, [50, 99])
        latency = LatencyReport(
            batch=1, requests=len(times), p50_ms=round(float(p50), 2), p99_ms=round(float(p99), 2)
        )
        report = GenerationReport(cases=len(times), times=TIMES, tokens=MAX_TOKENS)
        return ServingReport(None, (latency,), served_by(self.installation), generation=report)

    def _ask_again(self, server: TritonServer, text: str) -> float:
        """Send a text repeatedly; return the milliseconds of the last answer."""
        first, _ = self._ask(server, text)
        for _ in range(TIMES - 1):
            again, milliseconds = self._ask(server, text)
            if again != first:
                raise ServingError(
                    f"generate gave two answers for {text!r}: {first!r} and "
                    f"{again!r}, although decoding is greedy",
                    remedy="check engine settings that change answers, such as an 8-bit KV cache",
                )
        return milliseconds

    def _ask(self, server: TritonServer, text: str) -> tuple[str, float]:
        question = {"text_input": text, "exclude_input_in_output": True, "parameters": WITHOUT_CHANCE}
        begin = time.perf_counter()
        reply = server.request(
            "POST",
            "/invocations",
            body=json.dumps(question).encode(),
            headers={"Content-Type": "application/json"},
            timeout_s=REQUEST_WITHIN_S,
        )
        milliseconds = (time.perf_counter() - begin) * 1000
        answer = _text_of(reply.body) if reply.status == 200 else None
        if not answer:
            shown = reply.body.decode(errors="replace")[:SHOWN]
            raise ServingError(
                f"generate for {text!r} returned status "
                f"{reply.status} without text: {shown}\n{server.log_tail()}",
                remedy="check the engine options of the recipe, and that the weights are a generating model",
            )
        return answer, milliseconds


def _text_of(body: bytes) -> str | None:
    """Return the text of an answer; None if missing or empty."""
    try:
        answer: Any = json.loads(body)
    except ValueError:
        return None
    text = answer.get("text_output") if isinstance(answer, dict) else None
    return text if isinstance(text, str) and text else None
