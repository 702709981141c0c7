"""Write language models: for Triton's vLLM backend, and for its Python backend on CPUs.

vLLM's backend can fill in its tensors itself, but that starts a process that imports all of vLLM, and
containers disable it (`--disable-auto-complete-config`). So they are written here, for every release that can
serve such a model behind SageMaker.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from model_build.environments.packing import ENV_PARAMETER, ENV_PARAMETER_VALUE
from model_build.repository import config
from model_build.repository.options import choose_versions, place_instances
from model_build.repository.parts import DEFAULTS, VERSION, ModelProperties, write_model
from tritonstack.base.source_files import copy_from
from tritonstack.files.model.triton_options import TritonOptions
from tritonstack.files.records.manifests import TensorSpec

TEXT_IN = TensorSpec(name="text_input", datatype="BYTES", shape=(1,))
TEXT_OUT = TensorSpec(name="text_output", datatype="BYTES", shape=(-1,))
VLLM_INPUTS = (
    TEXT_IN,
    TensorSpec(name="image", datatype="BYTES", shape=(-1,)),
    TensorSpec(name="sampling_parameters", datatype="BYTES", shape=(1,)),
    *(
        TensorSpec(name=name, datatype="BOOL", shape=(1,))
        for name in (
            "stream",
            "exclude_input_in_output",
            "return_finish_reason",
            "return_cumulative_logprob",
            "return_logprobs",
            "return_num_input_tokens",
            "return_num_output_tokens",
        )
    ),
)
VLLM_OUTPUTS = (
    TEXT_OUT,
    TensorSpec(name="finish_reason", datatype="BYTES", shape=(-1,)),
    TensorSpec(name="cumulative_logprob", datatype="FP32", shape=(-1,)),
    TensorSpec(name="logprobs", datatype="BYTES", shape=(-1,)),
    TensorSpec(name="num_input_tokens", datatype="UINT32", shape=(1,)),
    TensorSpec(name="num_output_tokens", datatype="UINT32", shape=(-1,)),
)
_GENERATOR_NAMES = (
    *("text_input", "sampling_parameters", "stream", "exclude_input_in_output"),
    *("text_output", "finish_reason", "num_output_tokens"),
)
"""Tensors of vLLM's backend that the recipe text-generation has too."""
GENERATOR_INPUTS = tuple(tensor for tensor in VLLM_INPUTS if tensor.name in _GENERATOR_NAMES)
GENERATOR_OUTPUTS = tuple(tensor for tensor in VLLM_OUTPUTS if tensor.name in _GENERATOR_NAMES)


def add_generator(
    repository: Path,
    *,
    name: str,
    modules: Sequence[Path],
    files: Mapping[str, str],
    properties: ModelProperties = DEFAULTS,
) -> None:
    """Write a decoupled Python model that completes texts; the first of `modules` becomes model.py."""
    folder = repository / name
    (folder / VERSION).mkdir(parents=True)
    for module in modules:
        file_name = "model.py" if module == modules[0] else module.name
        copy_from(module.parent, module.name, folder / VERSION / file_name)
    for file in sorted(properties.graph.iterdir()) if properties.graph else ():
        file.rename(folder / VERSION / file.name)
    for file_name, text in files.items():
        (folder / VERSION / file_name).write_text(text, encoding="utf-8")
    triton = _options(properties)
    message = _message(name, GENERATOR_INPUTS, GENERATOR_OUTPUTS, "python", triton)
    place_instances(message, triton, gpu=False)
    config.set_parameter(message, ENV_PARAMETER, ENV_PARAMETER_VALUE)
    write_model(message, folder, properties)


def add_vllm_model(
    repository: Path, *, name: str, engine: Mapping[str, Any], properties: ModelProperties = DEFAULTS
) -> Path:
    """Write a language model and its engine arguments; return its version folder.

    It answers in several parts, so endpoints need SAGEMAKER_TRITON_INFERENCE_TYPE=generate.
    """
    folder = repository / name
    (folder / VERSION).mkdir(parents=True)
    text = json.dumps(dict(engine), indent=2, sort_keys=True)
    (folder / VERSION / "model.json").write_text(text + "\n", encoding="utf-8")
    message = _message(name, VLLM_INPUTS, VLLM_OUTPUTS, "vllm", _options(properties))
    # KIND_MODEL: vLLM distributes over the GPUs itself.
    message.instance_group.add(count=1, kind=config.model_config_schema().ModelInstanceGroup.KIND_MODEL)
    write_model(message, folder, properties)
    return folder / VERSION


def _options(properties: ModelProperties) -> TritonOptions:
    return TritonOptions() if properties.model is None else properties.model.record.triton


def _message(
    name: str,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    backend: str,
    triton: TritonOptions,
) -> Any:
    """Return the configuration of a decoupled model; only the text is required."""
    message = config.model_config(name=name, inputs=inputs, outputs=outputs, max_batch=0)
    message.backend = backend
    for tensor in message.input:
        tensor.optional = tensor.name != TEXT_IN.name
    message.model_transaction_policy.decoupled = True
    choose_versions(message, triton)
    for key, value in triton.parameters.items():
        config.set_parameter(message, key, value)
    return message
