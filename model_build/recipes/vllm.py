"""vllm: a language model for Triton's vLLM backend: weights and engine arguments.

The backend is decoupled: it answers in several parts. SageMaker's front end rejects that unless
SAGEMAKER_TRITON_INFERENCE_TYPE=generate requests one answer.

vLLM needs an absolute model path, so such an artifact works on single-model endpoints only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from model_build.data import BuildContext, Recipe, WrittenRepository
from model_build.errors import DamagedSourceError
from model_build.progress import BuildSteps
from model_build.repository.language import TEXT_IN, TEXT_OUT, add_vllm_model
from model_build.repository.parts import ModelProperties
from model_build.sources import file_selection
from model_build.store.archive import is_safe_name
from tritonstack.base.error_kinds import EndpointMismatchError, InvalidValueError
from tritonstack.base.errors import FileViolation, reject
from tritonstack.base.source_files import SourceFile, copy_file, require_file
from tritonstack.base.yaml import Document, closest
from tritonstack.facts.container_variables import INFERENCE_TYPE, SINCE
from tritonstack.facts.targets import Target, release_of
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import VllmRecipe

MODEL_ROOT = "/opt/ml/model"
"""Path of a single-model endpoint's archive in the container."""
FILLED_IN = ("model", "tokenizer", "revision", "tokenizer_revision", "code_revision", "download_dir")
SAFE_FORMATS = ("auto", "safetensors")
COMMON_ARGUMENTS = (
    "block_size", "compilation_config", "cpu_offload_gb", "disable_custom_all_reduce", "disable_log_stats",
    "disable_sliding_window", "distributed_executor_backend", "dtype", "enable_chunked_prefill",
    "enable_lora", "enable_prefix_caching", "enable_sleep_mode", "enforce_eager", "generation_config",
    "gpu_memory_utilization", "hf_overrides", "kv_cache_dtype", "limit_mm_per_prompt", "load_format",
    "max_logprobs", "max_model_len", "max_num_batched_tokens", "max_num_seqs", "mm_processor_kwargs",
    "model_impl", "num_gpu_blocks_override", "override_generation_config", "pipeline_parallel_size",
    "quantization", "rope_scaling", "rope_theta", "scheduling_policy", "seed", "served_model_name",
    "skip_tokenizer_init", "swap_space", "tensor_parallel_size", "tokenizer_mode", "trust_remote_code",
)  # fmt: skip
"""Known engine arguments; a close match that is not in the list is a typo."""
_POSITIVE = (
    *("max_model_len", "max_num_batched_tokens", "max_num_seqs"),
    *("pipeline_parallel_size", "tensor_parallel_size"),
)


class VllmModel(Recipe[VllmRecipe]):
    """The recipe for one model."""

    def __init__(self, model: Document[ModelSpec], recipe: VllmRecipe) -> None:
        super().__init__(model, recipe)
        reject(_violations(model, recipe.engine))

    def write_repository(self, context: BuildContext, steps: BuildSteps) -> WrittenRepository:
        """Write the weights and the engine arguments."""
        repository = context.folder / "repository"
        steps.run("repository", lambda: self._write(repository, context), lambda size: f"{size / 1e9:.1f} GB")
        return WrittenRepository(
            folder=repository,
            entry=self._model.record.name,
            target=Target(context.target.hardware),
            inputs=(TEXT_IN,),
            outputs=(TEXT_OUT,),
            parity=(),
            cases=(),
            max_batch=0,
        )

    def _write(self, repository: Path, context: BuildContext) -> int:
        spec = self._model.record
        engine = {"model": f"{MODEL_ROOT}/{spec.name}/1", **self._recipe.engine}
        version = add_vllm_model(
            repository, name=spec.name, engine=engine, properties=ModelProperties(model=self._model)
        )
        selection = file_selection(spec)
        files = [file for name, file in context.source.files.items() if selection.holds(name)]
        for file in files:
            name = file.name
            if not is_safe_name(name) or (version / name).exists():
                raise DamagedSourceError(
                    f"{spec.source}: {name} is not allowed in a Triton repository",
                    remedy="rename or remove the file in the source",
                )
            (version / name).parent.mkdir(parents=True, exist_ok=True)
            _place(file, version / name)
        return sum(file.size for file in files)


def require_generate(targets: Sequence[Target]) -> None:
    """Raise UsageError if no targeted release can serve such a model, before anything is fetched."""
    releases = [release for target in targets if (release := release_of(str(target)))]
    since = SINCE[INFERENCE_TYPE]
    old = [release for release in releases if release < since]
    if old and len(old) == len(releases):
        raise EndpointMismatchError(
            f"SageMaker's front end of Triton {max(old)} rejects decoupled models",
            remedy=f"choose Triton {since} or later",
        )


def _violations(model: Document[ModelSpec], engine: Mapping[str, Any]) -> Iterator[FileViolation]:
    for key, value in engine.items():
        violation = _violation(model.record, key, value)
        if violation is not None:
            yield model.violation(InvalidValueError, ("recipe", "engine", key), violation[0], violation[1])


def _violation(spec: ModelSpec, key: str, value: Any) -> tuple[str, str] | None:
    if key in FILLED_IN:
        return "set by the build: the weights come from `source`", "remove it"
    if key == "trust_remote_code" and value and spec.trust.remote_code is None:
        return "code in the model's repository is not trusted", "set `trust: {remote_code: <reason>}` too"
    if key == "load_format" and value not in SAFE_FORMATS and spec.trust.pickle is None:
        return f"{value!r} may be a pickle; only safetensors are fetched", "set `load_format: auto`"
    if key == "enable_lora" and value:
        return "adapters are not supported: they need another file next to the weights", "remove it"
    return _value_violation(key, value)


def _value_violation(key: str, value: Any) -> tuple[str, str] | None:
    if key == "gpu_memory_utilization" and not (_is_number(value) and 0 < value <= 1):
        return f"expected a share of memory above 0 and at most 1, got {value!r}", "set a number such as 0.9"
    if key in _POSITIVE and not (_is_number(value) and value == int(value) and value >= 1):
        return f"expected a positive integer, got {value!r}", "set an integer of at least 1"
    nearest = closest(key, COMMON_ARGUMENTS)
    if key not in COMMON_ARGUMENTS and (nearest is not None or "-" in key):
        return "unknown vLLM engine argument", f"did you mean '{nearest or key.replace('-', '_')}'?"
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _place(file: SourceFile, copy: Path) -> None:
    """Link or copy weights: large files are hard-linked on the same disk."""
    try:
        os.link(file.path, copy, follow_symlinks=False)
    except OSError:
        copy_file(file, copy)
    else:
        require_file(file, copy)
