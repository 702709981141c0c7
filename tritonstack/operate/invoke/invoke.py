"""Send inputs to an endpoint: texts, tensors, files, or the model's own test inputs."""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from tritonstack.base.byte_tensors import BYTES, numpy_type
from tritonstack.base.error_kinds import CommandLineError, DamagedArtifactError, NotApplicableError
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.results import Shown
from tritonstack.client import EndpointClient, ScoredClass, TopClasses, parse_classes
from tritonstack.client.codec import Parameter
from tritonstack.client.streaming import flat_inputs, outputs_of, response_array
from tritonstack.facts.container_variables import INFERENCE_TYPE, STREAMING
from tritonstack.files.checks.compatibility import unbuilt
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.examples import Examples, array_of
from tritonstack.files.records.manifests import Manifest
from tritonstack.operate.invoke.examples import NoExamplesError, load_examples
from tritonstack.operate.invoke.invocation_targets import InvocationTarget, find_target
from tritonstack.operate.invoke.request_inputs import GivenInputs, described, read_inputs, require_text
from tritonstack.operate.shared.artifacts import published_manifest
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.output_files import require_output, write_output
from tritonstack.operate.shared.session import Session

Arrays = Mapping[str, np.ndarray[Any, Any]]
Infer = Callable[[Arrays], Arrays]
_SEQUENCES = 2**31 - 1


def _as_lists(arrays: Arrays) -> dict[str, Any]:
    return {name: as_text(array).tolist() for name, array in arrays.items()}


def _all_as_lists(responses: tuple[Arrays, ...]) -> list[dict[str, Any]]:
    return list(map(_as_lists, responses))


def _shown_inputs(inputs: tuple[str, ...] | Arrays) -> list[str] | dict[str, Any]:
    return list(inputs) if isinstance(inputs, tuple) else _as_lists(inputs)


@dataclass(frozen=True)
class Invocation:
    """What was sent, and the outputs of the model."""

    inputs: Annotated[tuple[str, ...] | Arrays, Shown(_shown_inputs)]
    """Texts, or the inputs of a model without text input by name."""
    outputs: Annotated[Arrays, Shown(_as_lists)]
    """One row per text."""
    classes: Mapping[str, list[list[ScoredClass]]] = field(default_factory=dict)
    """The highest classes of each row, for outputs with labels, if they were requested."""
    responses: Annotated[tuple[Arrays, ...], Shown(_all_as_lists)] = ()
    """The outputs of each response of a decoupled model; `outputs` is then empty."""

    def save(self, file: Path) -> None:
        """Write the outputs to an .npz file. Texts become an array of type str; classes, of label texts.

        Those of several responses are named by the number of the response, from 0: `0/NAME`.
        """
        arrays = {name: _storable(name, array) for name, array in self.outputs.items()}
        for number, response in enumerate(self.responses):
            arrays |= {f"{number}/{name}": _storable(name, array) for name, array in response.items()}
        for name, rows in self.classes.items():
            arrays[name] = np.array([[label.label for label in row] for row in rows])
            arrays[f"{name}/values"] = np.array([[label.value for label in row] for row in rows])
        written = io.BytesIO()
        np.savez(written, allow_pickle=False, **arrays)
        write_output(file, written.getvalue())


@dataclass(frozen=True, kw_only=True)
class InvokeOptions:
    """What is sent instead of texts, how, and what is asked of the answer."""

    inputs: GivenInputs = field(default_factory=GivenInputs)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    """Parameters of the request, such as priority, or those of a language model's engine."""
    top: int = 0
    """Return this many of the highest classes of outputs with labels; 0 returns the values."""
    timeout_s: float = 900.0
    """The longest wait for the answer of an asynchronous endpoint."""
    on_piece: Callable[[str], None] | None = None
    """Called with each piece of a language model's completion when it arrives, and with a line break at its
    end, or with each response of a decoupled model as a line of JSON; None asks for whole answers."""


def as_text(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Decode texts, which Triton sends as bytes."""
    if array.dtype != object:
        return array
    texts = [value.decode(errors="replace") if isinstance(value, bytes) else value for value in array.flat]
    return np.array(texts, dtype=object).reshape(array.shape)


def output_file(file: Path) -> Path:
    """Return a file that outputs can be written to; raise UsageError before anything is sent."""
    if file.suffix.lower() != ".npz":
        raise CommandLineError(
            f"cannot save outputs to {file}: expected a name with .npz", remedy="write --save outputs.npz"
        )
    require_output(file)
    return file


def _storable(name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array that .npz files hold without pickles."""
    if array.dtype != object:
        return array
    try:
        texts = [value.decode() if isinstance(value, bytes) else str(value) for value in array.flat]
    except UnicodeDecodeError as error:
        raise NotApplicableError(
            f"cannot save output {name!r}: it has bytes that are not text, which .npz files cannot hold",
            remedy="call the endpoint from Python: tritonstack.client returns the bytes",
        ) from error
    return np.array(texts, dtype=np.str_).reshape(array.shape)


def invoke(
    session: Session,
    environment: str,
    endpoint: str,
    texts: Sequence[str] = (),
    *,
    instance: str | None = None,
    model: str | None = None,
    variant: str | None = None,
    options: InvokeOptions | None = None,
) -> Invocation:
    """Send texts or other inputs to an endpoint, and return the outputs.

    Without inputs, sends the model's test inputs: its texts, or the first example that its build stored.
    `model` selects one of several models on the endpoint, `variant` one of several variants.
    """
    options = options or InvokeOptions()
    inputs = options.inputs
    if texts and inputs:
        raise CommandLineError(
            "texts and other inputs exclude each other", remedy="write the text as an input: --input TEXT=..."
        )
    require_text(texts, "text")
    workspace = session.workspace(environment, instance)
    target = find_target(workspace, endpoint, model=model, variant=variant)
    if options.on_piece:
        _require_streams(workspace, endpoint, target, inputs)
    if target.model.streams and options.top:
        raise NotApplicableError(
            f"the model {target.model.name!r} streams its responses, which have no classes",
            remedy="omit --top and --labels",
        )
    request = ModelRequest(session.cloud(workspace.spec), workspace, endpoint, target, options)
    if options.on_piece:  # the pieces show the progress
        return _send(request, texts)
    with session.reporter.step(f"waiting for the answer of {target.endpoint}"):
        return _send(request, texts)


def _send(request: ModelRequest, texts: Sequence[str]) -> Invocation:
    model, inputs = request.target.model, request.options.inputs
    if model.generates and not inputs:
        return request.generate(tuple(texts or model.test_texts))
    if inputs:
        return request.send(read_inputs(inputs, request.manifest))
    if model.takes_texts:
        return request.send_texts(tuple(texts or model.test_texts))
    if texts:
        return request.send(request.as_only_input(texts))
    return request.send_example()


def _require_streams(
    workspace: Workspace, endpoint: str, target: InvocationTarget, inputs: GivenInputs
) -> None:
    if target.model.streams:
        return
    if inputs:
        raise CommandLineError(
            "--stream completes texts, and takes no other inputs",
            remedy="write the text as an argument, and settings as --parameter NAME=VALUE",
        )
    if not target.model.generates:
        raise NotApplicableError(
            f"the model {target.model.name!r} returns one response, which cannot be streamed",
            remedy="omit --stream",
        )
    if workspace.spec.endpoints[endpoint].environment.get(INFERENCE_TYPE) != STREAMING:
        raise NotApplicableError(
            f"the endpoint {endpoint!r} returns whole answers",
            remedy=f"add `environment: {{{INFERENCE_TYPE}: {STREAMING}}}` to the endpoint and deploy it, or "
            "omit --stream",
        )


def infer_texts(infer: Infer, texts: Sequence[str], *, max_batch: int) -> Arrays:
    """Return the outputs for all texts, from as many requests as the model's largest batch requires."""
    answers = [
        infer({"TEXT": np.array([[text] for text in texts[begin : begin + max_batch]], dtype=np.object_)})
        for begin in range(0, len(texts), max_batch)
    ]
    return {name: np.concatenate([answer[name] for answer in answers]) for name in answers[0]}


@dataclass(frozen=True)
class ModelRequest:
    """Requests to one model."""

    cloud: Cloud
    workspace: Workspace
    endpoint: str
    target: InvocationTarget
    options: InvokeOptions

    @cached_property
    def manifest(self) -> Manifest:
        """Return the manifest of the deployed artifact, which has the tensors of the model."""
        bucket, digest = self.workspace.spec.artifact_bucket, self.digest
        model = self.target.model.name
        manifest = published_manifest(self.cloud.client("s3"), bucket=bucket, model=model, digest=digest)
        if manifest is None:
            raise DamagedArtifactError(
                f"the manifest of {model!r} is missing in s3://{bucket}",
                remedy=f"run `tritonstack deploy {self.workspace.cli_arguments}` to publish it",
            )
        return manifest

    def generate(self, texts: tuple[str, ...]) -> Invocation:
        """Let a language model complete each text."""
        client = self.target.client(self.cloud.client("sagemaker-runtime"))
        answers = [self._completion(client, text) for text in texts]
        return Invocation(texts, {"text_output": np.array(answers, dtype=np.object_)})

    def _completion(self, client: EndpointClient, text: str) -> str:
        parameters, on_piece = self.options.parameters, self.options.on_piece
        if on_piece is None:
            return client.generate(text, parameters=parameters)
        pieces = []
        for piece in client.stream(text, parameters=parameters):
            on_piece(piece)
            pieces.append(piece)
        on_piece("\n")
        return "".join(pieces)

    def stream(self, inputs: Arrays) -> Invocation:
        """Send one request to a decoupled model, and collect its responses."""
        client, on_piece = self.target.client(self.cloud.client("sagemaker-runtime")), self.options.on_piece
        datatypes = {tensor.name: numpy_type(tensor.datatype) for tensor in self.manifest.outputs}
        responses = []
        for response in client.stream_responses(flat_inputs(inputs), parameters=self.options.parameters):
            outputs = outputs_of(response)
            if on_piece is not None:
                on_piece(json.dumps(outputs, ensure_ascii=False) + "\n")
            responses.append(
                {
                    name: response_array(value, like=np.empty(0, datatypes[name]))
                    for name, value in outputs.items()
                }
            )
        return Invocation(inputs, {}, responses=tuple(responses))

    def send(self, inputs: Arrays) -> Invocation:
        """Send one request."""
        if self.target.model.streams:
            return self.stream(inputs)
        return self._invocation(inputs, self._infer()(inputs))

    def send_texts(self, texts: tuple[str, ...]) -> Invocation:
        """Send texts to a model with the input TEXT."""
        outputs = infer_texts(self._infer(), texts, max_batch=self.target.model.batching.max_batch)
        return self._invocation(texts, outputs)

    def send_example(self) -> Invocation:
        """Send the first example that the build stored."""
        inputs, parameters = self.example()
        if self.target.model.streams:
            return self.stream(inputs)
        return self._invocation(inputs, self._infer(parameters)(inputs))

    def example(self) -> tuple[Arrays, Mapping[str, Parameter]]:
        """Return the inputs and parameters of the first example that the build stored."""
        example = self.examples().requests[0]
        number = secrets.randbelow(_SEQUENCES) + 1
        alone = {"sequence_id": number, "sequence_start": True, "sequence_end": True}
        inputs = {tensor.name: array_of(tensor) for tensor in example.inputs}
        return inputs, alone if example.sequence else {}

    def as_only_input(self, texts: Sequence[str]) -> Arrays:
        """Return texts as the model's only input, if that takes texts."""
        inputs = self.manifest.inputs
        if len(inputs) == 1 and inputs[0].datatype == BYTES:
            return read_inputs(GivenInputs([f"{inputs[0].name}={json.dumps(list(texts))}"]), self.manifest)
        raise NotApplicableError(
            f"the model {self.target.model.name!r} does not accept texts alone; its inputs: "
            f"{', '.join(map(described, inputs))}",
            remedy=f"name them, for example --input {inputs[0].name}=VALUE or --input {inputs[0].name}=@FILE",
        )

    def _infer(self, defaults: Mapping[str, Parameter] | None = None) -> Infer:
        parameters = {**(defaults or {}), **self.options.parameters}
        outputs = self._wanted_outputs
        if self.target.asynchronous:
            queue = self.target.queue(self.cloud, self.workspace.spec.data_bucket)
            timeout_s = self.options.timeout_s
            return partial(queue.infer, outputs=outputs, parameters=parameters, timeout_s=timeout_s)
        client = self.target.client(self.cloud.client("sagemaker-runtime"))
        return partial(client.infer, outputs=outputs, parameters=parameters)

    @cached_property
    def _wanted_outputs(self) -> list[str | TopClasses] | None:
        """Return the outputs, those with labels as classes; None for all outputs as they are."""
        if not self.options.top:
            return None
        outputs = self.manifest.outputs
        if not any(output.labels for output in outputs):
            raise NotApplicableError(
                f"no output of the model {self.target.model.name!r} has labels; its outputs: "
                f"{', '.join(map(described, outputs))}",
                remedy="omit --labels and --top, or add labels to model.yaml: "
                "tensors: {OUTPUT: {labels: [...]}}",
            )
        return [
            TopClasses(output.name, min(self.options.top, len(output.labels)))
            if output.labels
            else output.name
            for output in outputs
        ]

    def _invocation(self, inputs: tuple[str, ...] | Arrays, outputs: Arrays) -> Invocation:
        labelled = {output.output for output in self._wanted_outputs or () if isinstance(output, TopClasses)}
        return Invocation(
            inputs,
            {name: array for name, array in outputs.items() if name not in labelled},
            {name: parse_classes(outputs[name]) for name in outputs if name in labelled},
        )

    def examples(self) -> Examples:
        """Return the examples that the build stored."""
        bucket, digest = self.workspace.spec.artifact_bucket, self.digest
        model = self.target.model.name
        try:
            return load_examples(self.cloud, bucket=bucket, model=model, digest=digest)
        except NoExamplesError as error:
            remedy = "name the inputs: --input NAME=VALUE, or --data FILE"
            raise NoExamplesError(error.message, remedy=remedy) from error

    @cached_property
    def digest(self) -> str:
        """The digest of the artifact that the lock names."""
        if self.target.artifact is None:
            raise InvalidFilesError(unbuilt(self.workspace, self.endpoint))
        return self.target.artifact.digest
