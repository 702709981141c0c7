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

from model_build.environments.packing import PARAMETER, PARAMETER_VALUE
from model_build.repository import config
from model_build.repository.instances import choose_versions, place_instances
from model_build.repository.parts import ALONE, VERSION, ModelProperties, write_model
from tritonstack.base.source_files import copy_from
from tritonstack.records.manifests import TensorSpec
from tritonstack.spec.models.triton_options import TritonOptions

TEXT_IN = TensorSpec(name="text_input", datatype="BYTES", shape=(1,))
TEXT_OUT = TensorSpec(name="text_output", datatype="BYTES", shape=(-1,))
OPTIONAL_INPUTS = (
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
FURTHER_OUTPUTS = (
    TensorSpec(name="finish_reason", datatype="BYTES", shape=(-1,)),
    TensorSpec(name="cumulative_logprob", datatype="FP32", shape=(-1,)),
    TensorSpec(name="logprobs", datatype="BYTES", shape=(-1,)),
    TensorSpec(name="num_input_tokens", datatype="UINT32", shape=(1,)),
    TensorSpec(name="num_output_tokens", datatype="UINT32", shape=(-1,)),
)


GENERATOR_INPUTS = (
    OPTIONAL_INPUTS[1],
    *(TensorSpec(name=name, datatype="BOOL", shape=(1,)) for name in ("stream", "exclude_input_in_output")),
)
GENERATOR_OUTPUTS = (FURTHER_OUTPUTS[0], FURTHER_OUTPUTS[-1])
"""Tensors of the recipe text-generation beside its texts, as vLLM's backend has them."""


def add_generator(
    repository: Path,
    *,
    name: str,
    modules: Sequence[Path],
    files: Mapping[str, str],
    around: ModelProperties = ALONE,
) -> None:
    """Write a decoupled Python model that completes texts; the first of `modules` becomes model.py."""
    folder = repository / name
    (folder / VERSION).mkdir(parents=True)
    for module in modules:
        copied = "model.py" if module == modules[0] else module.name
        copy_from(module.parent, module.name, folder / VERSION / copied)
    for file in sorted(around.graph.iterdir()) if around.graph else ():
        file.rename(folder / VERSION / file.name)
    for written, text in files.items():
        (folder / VERSION / written).write_text(text, encoding="utf-8")
    triton = _options(around)
    message = _message(name, (TEXT_IN, *GENERATOR_INPUTS), (TEXT_OUT, *GENERATOR_OUTPUTS), "python", triton)
    place_instances(message, triton, gpu=False)
    config.set_parameter(message, PARAMETER, PARAMETER_VALUE)
    write_model(message, folder, around)


def add_vllm_model(
    repository: Path, *, name: str, engine: Mapping[str, Any], around: ModelProperties = ALONE
) -> Path:
    """Write a language model and its engine arguments; return its version folder.

    It answers in several parts, so endpoints need SAGEMAKER_TRITON_INFERENCE_TYPE=generate.
    """
    folder = repository / name
    (folder / VERSION).mkdir(parents=True)
    text = json.dumps(dict(engine), indent=2, sort_keys=True)
    (folder / VERSION / "model.json").write_text(text + "\n", encoding="utf-8")
    inputs, outputs = (TEXT_IN, *OPTIONAL_INPUTS), (TEXT_OUT, *FURTHER_OUTPUTS)
    message = _message(name, inputs, outputs, "vllm", _options(around))
    # vLLM distributes over the GPUs itself.
    message.instance_group.add(count=1, kind=config.model_config_schema().ModelInstanceGroup.KIND_MODEL)
    write_model(message, folder, around)
    return folder / VERSION


def _options(around: ModelProperties) -> TritonOptions:
    return TritonOptions() if around.model is None else around.model.record.triton


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
