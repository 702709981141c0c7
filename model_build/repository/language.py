"""Write a language model for Triton's vLLM backend.

The backend can fill in its tensors itself, but that starts a process that imports all of vLLM, and containers
disable it (`--disable-auto-complete-config`). So they are written here, for every release that can serve such
a model behind SageMaker.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model_build.repository import config
from model_build.repository.instances import choose_versions
from model_build.repository.parts import ALONE, VERSION, ModelProperties, write_model
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
    triton = TritonOptions() if around.model is None else around.model.record.triton
    message = config.model_config(
        name=name,
        inputs=(TEXT_IN, *OPTIONAL_INPUTS),
        outputs=(TEXT_OUT, *FURTHER_OUTPUTS),
        max_batch=0,
    )
    for tensor in message.input:
        tensor.optional = tensor.name != TEXT_IN.name
    message.backend = "vllm"
    message.model_transaction_policy.decoupled = True
    # vLLM distributes over the GPUs itself.
    message.instance_group.add(count=1, kind=config.model_config_schema().ModelInstanceGroup.KIND_MODEL)
    choose_versions(message, triton)
    for key, value in triton.parameters.items():
        config.set_parameter(message, key, value)
    write_model(message, folder, around)
    return folder / VERSION
