"""Send a model's examples to an endpoint and compare the answers.

Transient failures are retried until the deadline.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from numpy.typing import NDArray

from tritonstack.client.errors import EndpointClientError, InvocationError, ModelTimeoutError
from tritonstack.client.streaming import flat_inputs, response_array
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.comparing import MEASURES, IncomparableError, compare, first_difference
from tritonstack.files.records.examples import Example, Examples, RightAnswer, array_of
from tritonstack.operate.invoke.invocation_targets import InvocationTarget
from tritonstack.operate.shared.aws import Cloud

_LEAST_S = 30.0
"""The minimum time for a queued request, even if the endpoint needed most of the deadline to start."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long to wait for an answer."""

    seconds: float = 300.0
    """Per endpoint."""
    pause_s: float = 2.0
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)

    def begin(self) -> Deadline:
        """Start the deadline."""
        return Deadline(self, self.clock() + self.seconds)


USUAL_PATIENCE = Patience()
PATIENCE_WITH_SLEEPERS = Patience(seconds=1800.0)
"""Scaling from zero takes time for the alarm, the instance, the image, and the model."""


@dataclass(frozen=True)
class Deadline:
    """The deadline of one endpoint."""

    patience: Patience
    until: float

    @property
    def now(self) -> float:
        """Return the current time."""
        return self.patience.clock()

    @property
    def timeout_s(self) -> float:
        """Return how long to wait for the answer to a request that is queued now."""
        return max(self.until - self.now, min(_LEAST_S, self.patience.seconds))

    def pause(self) -> None:
        """Pause before the next attempt."""
        self.patience.sleep(self.patience.pause_s)


def may_sleep(workspace: Workspace, name: str) -> bool:
    """Return whether the endpoint may be scaled to zero."""
    endpoint = workspace.spec.endpoints[name]
    if endpoint.components is not None and endpoint.components.min_copies == 0:
        return True
    return any(variant.scaling.lowest == 0 for variant in endpoint.variants)


Array = NDArray[Any]
Result = TypeVar("Result")
Parameters = Mapping[str, int | str | bool]
MAX_TOKENS = 16
_SEQUENCES = 2**31 - 1
_NO_CAPACITY = "no capacity"
"""SageMaker's error for an inference component without copies, which it reports as a client error."""


@dataclass(frozen=True)
class RequestResult:
    """The result of one request."""

    example: str
    outcome: Literal["ok", "wrong", "failed", "not-checked", "skipped"]
    detail: str = ""
    milliseconds: float | None = None


def ask_all(
    cloud: Cloud, spec: EnvironmentSpec, target: InvocationTarget, examples: Examples, deadline: Deadline
) -> Iterator[RequestResult]:
    """Send all examples in order."""
    tester = _ModelTester(cloud, spec, target, deadline)
    for number, text in enumerate(examples.texts, start=1):
        yield tester.generate(f"text {number}", text)
    parameters = _sequence_parameters(examples)
    for index, example in enumerate(examples.requests):
        if index and example.sequence and not target.one_machine:
            yield RequestResult(
                example.name, "skipped", "the model is stateful, and requests may reach different instances"
            )
            return
        yield tester.ask(example, parameters(example))


class _ModelTester:
    def __init__(
        self, cloud: Cloud, spec: EnvironmentSpec, target: InvocationTarget, deadline: Deadline
    ) -> None:
        self._target = target
        self._deadline = deadline
        patience = deadline.patience
        self._client = target.client(cloud.client("sagemaker-runtime"))
        self._queue = target.queue(
            cloud,
            spec.data_bucket,
            folder="smoke",
            pause_s=patience.pause_s,
            sleep=patience.sleep,
            clock=patience.clock,
        )

    def ask(self, example: Example, parameters: Parameters) -> RequestResult:
        """Send one request and compare each output."""
        inputs = {tensor.name: array_of(tensor) for tensor in example.inputs}
        if example.responses:
            return self._stream(example, inputs)
        outputs, result = self._timed(example.name, lambda: self._infer(inputs, parameters))
        if outputs is None:
            return result
        failures = [failure for right in example.outputs if (failure := output_difference(right, outputs))]
        return _judged(result, "; ".join(failures))

    def _stream(self, example: Example, inputs: Mapping[str, Array]) -> RequestResult:
        """Send one request to a decoupled model, and compare each response."""
        responses, result = self._timed(
            example.name, lambda: list(self._client.stream_responses(flat_inputs(inputs)))
        )
        return result if responses is None else _judged(result, response_difference(example, responses))

    def _infer(self, inputs: Mapping[str, Array], parameters: Parameters) -> Mapping[str, Array]:
        if not self._target.asynchronous:
            return self._client.infer(inputs, parameters=parameters)
        return self._queue.infer(inputs, parameters=parameters, timeout_s=self._deadline.timeout_s)

    def generate(self, name: str, text: str) -> RequestResult:
        """Send a text-generation request; any text passes."""
        parameters: Mapping[str, Any] = {"temperature": 0, "max_tokens": MAX_TOKENS}
        answer, result = self._timed(name, lambda: self._client.generate(text, parameters=parameters))
        return _judged(result, "the answer is empty" if answer == "" else None)

    def _timed(self, name: str, ask: Callable[[], Result]) -> tuple[Result | None, RequestResult]:
        while True:
            begin = self._deadline.now
            try:
                answer = ask()
            except EndpointClientError as error:
                took = (self._deadline.now - begin) * 1000
                if not self._may_pass(error) or self._deadline.now >= self._deadline.until:
                    return None, RequestResult(name, "failed", error.message, took)
                self._deadline.pause()
                continue
            return answer, RequestResult(name, "ok", "", (self._deadline.now - begin) * 1000)

    def _may_pass(self, error: EndpointClientError) -> bool:
        if not isinstance(error, InvocationError):
            return False
        # Loading a model can take longer than one request waits.
        is_loading = self._target.target_model is not None and isinstance(error, ModelTimeoutError)
        is_waking = self._target.component is not None and _NO_CAPACITY in error.service.message
        return error.retryable or is_loading or is_waking


def _judged(result: RequestResult, failure: str | None) -> RequestResult:
    return replace(result, outcome="wrong", detail=failure) if failure else result


def _sequence_parameters(examples: Examples) -> Callable[[Example], Parameters]:
    """Return Triton's sequence parameters with a unique id."""
    number = secrets.randbelow(_SEQUENCES) + 1

    def parameters(example: Example) -> Parameters:
        place = example.sequence
        if place is None:
            return {}
        return {"sequence_id": number, "sequence_start": place.start, "sequence_end": place.end}

    return parameters


def response_difference(example: Example, responses: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the first difference between the responses of a decoupled model and the expected ones."""
    if len(responses) != len(example.responses):
        return f"expected {len(example.responses)} responses, got {len(responses)}"
    for number, (response, expected) in enumerate(zip(responses, example.responses, strict=True), start=1):
        outputs = {
            right.name: response_array(response[right.name], like=array_of(right))
            for right in expected
            if right.name in response
        }
        for right in expected:
            if difference := output_difference(right, outputs):
                return f"response {number}: {difference}"
    return None


def output_difference(right: RightAnswer, outputs: Mapping[str, Array]) -> str | None:
    """Return the difference of one output, or None."""
    if right.name not in outputs:
        return f"output {right.name} is missing; got {', '.join(sorted(outputs)) or 'nothing'}"
    actual, expected = outputs[right.name], array_of(right)
    try:
        comparison = compare("", right.name, actual=actual, expected=expected)
    except IncomparableError:
        return f"{right.name}: expected shape {list(expected.shape)}, got {list(actual.shape)}"
    if comparison.is_within(right.tolerance):
        return None
    measures = [measure for measure in MEASURES if measure.bound(right.tolerance) is not None]
    measured = ", ".join(
        f"{measure.title} {measure.value(comparison):{measure.form}} (accepted "
        f"{measure.describe_bound(right.tolerance)})"
        for measure in measures
    )
    return f"{right.name} is {first_difference(actual, expected, right.tolerance)}: {measured}"
