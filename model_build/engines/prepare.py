"""Build TensorRT engines from an exported graph.

The graph stage compares the engine's ONNX graph in ONNX Runtime, which shows the cost of exporting and
quantizing. The serving check shows the effect of TensorRT itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from model_build.checking.parity import describe_parity, judge
from model_build.data import BuildContext, Case, ExportedGraph, ServableGraph
from model_build.engines import machine
from model_build.engines.build import EngineBuilder, SharedFiles, engine_key
from model_build.engines.graphs import cases_for, graph_for_engine
from model_build.engines.trtexec import EngineOrder, profile_shapes
from model_build.errors import BuildMachineError, EngineError
from model_build.graphs.running import GraphSession, compare_graph
from model_build.progress import BuildSteps
from tritonstack.base.error_kinds import UnavailableOptionError
from tritonstack.base.errors import InvalidFilesError
from tritonstack.facts.releases import RELEASES, TritonRelease
from tritonstack.facts.targets import Target, hardware_of, release_of
from tritonstack.files.model.backend_rules import capability_violations, tensorrt_violations
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.tensorrt import TensorRT
from tritonstack.files.model.tolerance import Precision

PLAN_NAME = "model.plan"
STEP = "build engine"


def prepare_engines(
    graph: ExportedGraph, *, cases: Sequence[Case], spec: ModelSpec, context: BuildContext, steps: BuildSteps
) -> ServableGraph:
    """Build the engine for the target's GPU; add the engines of the artifact's other GPUs."""
    precision = _precision(spec)
    release, capability = release_and_capability(context.target)
    options = spec.tensorrt or TensorRT()
    _check(context, options, release, capability)
    prepared = graph_for_engine(graph, precision=precision, version=release.tensorrt_version, cases=cases)
    parity = steps.run(
        "compare graph",
        lambda: judge(
            "graph",
            compare_graph(GraphSession(prepared.file), cases_for(cases, prepared)),
            spec.accept,
            precision=precision,
        ),
        describe_parity,
    )
    order = EngineOrder(
        graph=prepared.file,
        version=release.tensorrt_version,
        precision=precision,
        options=options,
        profiles=profile_shapes(spec, prepared.inputs),
    )
    cache = _EngineCache(order, context, steps)
    folder = graph.beside("engine")
    folder.mkdir()
    engines = cache.fill(folder, release, capability, options.capabilities or (capability,))
    return ServableGraph(
        folder=folder,
        backend="tensorrt",
        precision=precision,
        inputs=prepared.inputs,
        outputs=prepared.outputs,
        batches=graph.batches,
        parity=parity,
        tensorrt=cache.tensorrt,
        engines=engines if options.capabilities else {},
        profiles=len(order.profiles),
    )


class _EngineCache:
    """Cache of engines built on any machine, by engine key."""

    def __init__(self, order: EngineOrder, context: BuildContext, steps: BuildSteps) -> None:
        self._order = order
        self._steps = steps
        self._files = SharedFiles(context.cache_dir / "tensorrt", context.shared_cache, self._notify)
        self.tensorrt = ""
        """The TensorRT version that built the engines."""

    def fill(
        self, folder: Path, release: TritonRelease, own: str, capabilities: Sequence[str]
    ) -> dict[str, str]:
        """Copy the engines of all capabilities into a folder; return their file names by capability."""
        own_plan = self._steps.run(
            STEP, lambda: self._build(release, own), lambda plan: f"{plan.stat().st_size / 1e6:.1f} MB"
        )
        plans = {capability: self._find(capability, own, own_plan) for capability in capabilities}
        lacking = [capability for capability, plan in plans.items() if not plan.is_file()]
        if lacking:
            raise EngineError(
                f"the engine for compute capability {own} is cached; engines for {', '.join(lacking)} "
                "are missing",
                remedy="build the model for those targets with the same cache, then run this build again",
            )
        names = {
            capability: PLAN_NAME if len(plans) == 1 else f"model-sm{capability.replace('.', '')}.plan"
            for capability in plans
        }
        for capability, plan in plans.items():
            shutil.copyfile(plan, folder / names[capability])
        return names

    def _build(self, release: TritonRelease, own: str) -> Path:
        """Build the engine for this machine, or reuse a cached one.

        TensorRT output is not reproducible, so the same order must reuse its engine.
        """
        builder = EngineBuilder(
            trtexec=machine.require_trtexec(),
            release=release,
            capability=own,
            gpu=machine.gpu_name(),
            files=self._files,
            notify=self._notify,
        )
        name = self._name(own)
        plan = self._files.fetch(name)
        if plan.is_file():
            self.tensorrt = builder.version_of(plan)
            return plan
        part = plan.with_suffix(".building")
        self.tensorrt = builder.build(self._order, part)
        part.replace(plan)
        self._files.share(name)
        return plan

    def _find(self, capability: str, own: str, own_plan: Path) -> Path:
        return own_plan if capability == own else self._files.fetch(self._name(capability))

    def _name(self, capability: str) -> str:
        return f"engines/{engine_key(self._order, capability)}.plan"

    def _notify(self, line: str) -> None:
        self._steps.note(STEP, line)


def release_and_capability(target: Target) -> tuple[TritonRelease, str]:
    """Return the release and the compute capability of a GPU target (24.09 and 8.6 for sm86-24.09)."""
    name = release_of(str(target))
    if name is None:
        raise BuildMachineError(
            f"TensorRT needs a GPU; {target} has none",
            remedy="choose an instance type with a GPU",
        )
    digits = hardware_of(str(target)).removeprefix("sm")
    return RELEASES[name], f"{digits[:-1]}.{digits[-1]}"


def _check(context: BuildContext, options: TensorRT, release: TritonRelease, capability: str) -> None:
    model = context.model

    violations = [
        *tensorrt_violations(options, model.record.precision, release),
        *capability_violations(options, model.record.precision, capability),
    ]
    if violations:
        raise InvalidFilesError([model.place(violation) for violation in violations])


def _precision(spec: ModelSpec) -> Precision:
    if spec.precision == "auto":
        raise EngineError(
            "precision auto is for CPU targets only",
            remedy="choose fp32, fp16, bf16, or int8",
            code=UnavailableOptionError.code,
        )
    return spec.precision
