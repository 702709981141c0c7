"""Serve a packed generative model as an endpoint does, and check it with `generate`.

The check proves that the archive loads, that every test text gets a text answer, and that greedy decoding
repeats its answer. If a framework has completed the texts, its completions must be equal, whole and streamed.
Without, as for vLLM, there is nothing to compare with. Only single-model endpoints serve such archives, so
multi-model hosting is not checked.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_build.checking.archive_checks import ArchiveCheck
from model_build.checking.served_model import ServingReport, latency_of, served_by, with_errors
from model_build.data import Case
from model_build.errors import ParityError, ServingError
from model_build.repository.language import TEXT_OUT
from model_build.store.archive import unpack_own
from tritonstack.base.files import parse_json
from tritonstack.client.streaming import read_responses, text_of
from tritonstack.facts.container_variables import (
    GENERATING,
    INFERENCE_TYPE,
    ContainerOptions,
)
from tritonstack.files.records.manifests import GenerationReport
from tritonstack.triton import TritonResponse, TritonServer
from tritonstack.triton.server import SINGLE_MODEL_ROOT

READY_WITHIN_S = 1800.0
"""Loading gigabytes, compiling, and profiling take minutes."""
REQUEST_WITHIN_S = 120.0
TIMES = 2
COMPARED_TOKENS = 32
"""Most tokens of a completion that is compared with the framework's."""
GREEDY = {"temperature": 0, "max_tokens": COMPARED_TOKENS}
MAX_TOKENS = 16
WITHOUT_CHANCE = {"temperature": 0, "seed": 0, "max_tokens": MAX_TOKENS, "ignore_eos": True}
"""Greedy decoding with a fixed number of tokens, so that times are comparable."""
SHOWN = 500


@dataclass(frozen=True, kw_only=True)
class GenerateCheck(ArchiveCheck):
    """The check of a model that completes texts; its cases are those that a framework has completed."""

    texts: Sequence[str]
    cases: Sequence[Case] = ()

    @property
    def expected(self) -> Mapping[str, str]:
        """The framework's greedy completion of each text; empty if there is none to compare with."""
        return {case.name: case.expected[TEXT_OUT.name][0].decode() for case in self.cases}

    def run(self) -> ServingReport:
        """Serve the archive and send every text; raise ServingError on a wrong answer."""
        if not self.texts:
            raise ServingError(
                f"{self.entry!r} has no test inputs to check",
                remedy="add texts to `test_inputs` in model.yaml",
            )
        root = self.work / "single"
        unpack_own(self.packed, root)
        with self._served(root, GENERATING[0]) as server:
            times = [self._ask_again(server, text) for text in self.texts]
            for text, right in self.expected.items():
                self._compare(text, right, self._ask(server, text, GREEDY)[0])
        if self.expected:
            with self._served(root, GENERATING[1]) as server:
                for text, right in self.expected.items():
                    self._compare(text, right, "".join(self._streamed(server, text)))
        report = GenerationReport(
            cases=len(times), times=TIMES, tokens=MAX_TOKENS, compared=len(self.expected)
        )
        latency = (latency_of(times, batch=1),)
        return ServingReport(None, latency, served_by(self.installation), generation=report)

    @contextmanager
    def _served(self, root: Path, inference_type: str) -> Iterator[TritonServer]:
        options = ContainerOptions(self.entry, generates=True)
        with self.start(root, inference_type, options, {INFERENCE_TYPE: inference_type}) as server:
            if not self.expected and server.model_root != SINGLE_MODEL_ROOT:
                raise ServingError(
                    f"the engine's arguments name {SINGLE_MODEL_ROOT}, which this machine cannot mount for "
                    "the server",
                    remedy="build where user namespaces are allowed, for example in a privileged container",
                )
            server.wait_ready(timeout_s=READY_WITHIN_S)
            yield server

    def _compare(self, text: str, right: str, answer: str) -> None:
        if answer != right:
            raise ParityError(
                f"the served completion of {text!r} is {answer[:SHOWN]!r}; expected {right[:SHOWN]!r}",
                remedy="build the model again; if the difference remains, report it with the model's "
                "config.json and tokenizer.json",
            )

    def _streamed(self, server: TritonServer, text: str) -> Iterator[str]:
        """Yield the pieces of a streamed completion."""
        question = _question(text, {**GREEDY, "stream": True})
        reply = self._sent(server, question)
        if reply.status != 200:
            raise self._failed(server, text, reply)
        for response in read_responses([reply.body], content_type=reply.headers["content-type"]):
            if "error" in response:
                raise self._failed(server, text, reply)
            yield text_of(response)

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

    def _ask(
        self, server: TritonServer, text: str, parameters: Mapping[str, Any] = WITHOUT_CHANCE
    ) -> tuple[str, float]:
        begin = time.perf_counter()
        reply = self._sent(server, _question(text, parameters))
        milliseconds = (time.perf_counter() - begin) * 1000
        answer = _text_of(reply.body) if reply.status == 200 else None
        if answer is None or not (answer or self.expected):
            raise self._failed(server, text, reply)
        return answer, milliseconds

    def _sent(self, server: TritonServer, question: bytes) -> TritonResponse:
        return server.request(
            "POST",
            "/invocations",
            body=question,
            headers={"Content-Type": "application/json"},
            timeout_s=REQUEST_WITHIN_S,
        )

    def _failed(self, server: TritonServer, text: str, reply: TritonResponse) -> ServingError:
        body = reply.body.decode(errors="replace")[:SHOWN]
        message = f"generate for {text!r} returned status {reply.status} without text: {body}"
        return ServingError(
            with_errors(message, server),
            remedy="check the engine options of the recipe, and that the weights are a generating model",
        )


def _question(text: str, parameters: Mapping[str, Any]) -> bytes:
    question = {"text_input": text, "exclude_input_in_output": True, "parameters": dict(parameters)}
    return json.dumps(question).encode()


def _text_of(body: bytes) -> str | None:
    """Return the text of an answer; None if missing."""
    try:
        answer: Any = parse_json(body)
    except ValueError:
        return None
    text = answer.get("text_output") if isinstance(answer, dict) else None
    return text if isinstance(text, str) else None
