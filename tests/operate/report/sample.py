"""A report with everything that a page can show; `text` replaces each text that people or AWS write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from tests.manifests import manifest
from tritonstack.facts.advisories.published import advisories_of
from tritonstack.files.records.events import Event, LoadTest, RecordedLevel, TouchedArtifact
from tritonstack.files.records.manifests import CandidateReport, LatencyReport, ParityReport, TensorSpec
from tritonstack.operate.locks.versions import HistoryEntry
from tritonstack.operate.project.inspection import GraphStep
from tritonstack.operate.promote.gates import GateResult
from tritonstack.operate.report.report_data import (
    DeployChanges,
    EndpointCost,
    LockedModel,
    MissingData,
    PromotionGates,
    ReportData,
    ReportedEnvironment,
    ReportedModel,
)
from tritonstack.operate.report.rollout_history import AlarmPeriod, PastRollout, planned_shift
from tritonstack.operate.status.status import EndpointStatus, EnvironmentStatus, Machines, ServedDigest
from tritonstack.operate.status.traffic import Traffic

AT = datetime(2026, 11, 26, 9, 30, tzinfo=UTC)
OLD, NEW = "1f" * 32, "ec" * 32
COMMIT = "a39ca4ec95e0eb42d9cce82726c22f58f4ed1223"
Text = Callable[[str], str]
_LINEAR = {
    "BlueGreenUpdatePolicy": {
        "TrafficRoutingConfiguration": {
            "Type": "LINEAR",
            "LinearStepSize": {"Type": "CAPACITY_PERCENT", "Value": 25},
            "WaitIntervalInSeconds": 300,
        },
        "TerminationWaitInSeconds": 300,
    }
}


def plain(text: str) -> str:
    """Leave a text as it is."""
    return text


def sample_report(text: Text = plain) -> ReportData:
    """Return a report on two environments and two models."""
    models = (_ranker(text), _embedding(text))
    return ReportData(
        project=text("shop-models"),
        at=AT,
        version="0.1.0",
        commit=COMMIT,
        environments=(
            _dev(text),
            _prod(text),
            ReportedEnvironment("old", invalid=text("old.yaml:3: unknown key")),
        ),
        models=models,
        timeline=tuple(_timeline(text)),
        missing=(
            MissingData(
                text("environment old"), text("its files are invalid"), text("run `tritonstack validate`")
            ),
        ),
    )


def _dev(text: Text) -> ReportedEnvironment:
    return ReportedEnvironment(
        name="dev",
        account="111111111111",
        region="eu-west-1",
        release="26.05",
        owner=text("search team"),
        advisories=advisories_of("26.05"),
        models={
            "ranker": (LockedModel("cpu", NEW),),
            "embedding": (
                LockedModel("cpu", NEW, outdated=text("model.yaml has changed")),
                LockedModel("sm86-26.05", None, outdated=text("never built for sm86-26.05")),
            ),
        },
        costs=(
            EndpointCost("search", (text("main: 1–2 × ml.c7i.xlarge, 0.214 per hour"),), 156.2, 312.4, 156.2),
        ),
        status=_status(text, "dev", live=NEW),
        changes=DeployChanges((), (), (), rejected=False),
        rollouts=(
            replace(
                _rollout("in progress"), stages=((62.0, text("Creating: 2 instances")),), firing_alarms=()
            ),
        ),
    )


def _prod(text: Text) -> ReportedEnvironment:
    gates = (
        GateResult(
            "soaked_hours",
            "ranker",
            "deployed for 24 h",
            text("3.0 h"),
            text("was deployed for 3 h of 24 h"),
            text("wait until 06:00"),
        ),
        GateResult("verified", "ranker", "passed on each endpoint", text("passed on search")),
    )
    return ReportedEnvironment(
        name="prod",
        account="222222222222",
        region="eu-west-1",
        release="25.04",
        owner=text("search team"),
        protected=True,
        advisories=advisories_of("25.04"),
        models={
            "ranker": (
                LockedModel(
                    "cpu",
                    OLD,
                    differences=(text("model.yaml has changed"), "p99 6.1 ms here, 4.2 ms there"),
                    unverified=text("no expected outputs"),
                    running={"search": NEW},
                ),
            ),
            "embedding": (LockedModel("cpu", NEW),),
        },
        gates=PromotionGates("dev", ("deployed for 24 h", "verified"), gates, (text("ranker for cpu"),)),
        costs=(EndpointCost("search", (text("main: 2–8 × ml.c7i.2xlarge, no price"),), None, None),),
        status=_status(text, "prod", live=OLD, firing_alarms=("tritonstack-prod-search-main-latency-p99",)),
        changes=DeployChanges(
            (text("ranker (cpu): 1f1f1f1f1f1f → ecececececec; p99 6.1 ms → 4.2 ms"),),
            ((text("tritonstack-prod-endpoint-search: rollout"), (text("linear, 25 % per step"),)),),
            (text("tritonstack-prod-endpoint-old: no longer requested"),),
            rejected=True,
        ),
        rollouts=(_rollout("completed"), _rollout(text("rolled back: latency-p99 in ALARM"))),
    )


def _status(text: Text, name: str, *, live: str, firing_alarms: tuple[str, ...] = ()) -> EnvironmentStatus:
    deployed = Event(
        kind="deployed", environment=name, at="2026-11-25T08:00:00Z", by=text("mara"), commit=COMMIT
    )
    verdict = deployed.model_copy(
        update={"kind": "refuted" if firing_alarms else "verified", "note": text("2 of 9 wrong")}
    )
    endpoint = EndpointStatus(
        name="search",
        endpoint=f"tritonstack-{name}-search",
        status="InService",
        models=(ServedDigest("ranker", live, NEW),),
        machines=(Machines("main", 2, 1, 4),),
        traffic=Traffic(requests=18_240, server_errors=3 if firing_alarms else 0, p99_ms=41.0),
        firing_alarms=firing_alarms,
        drift=(text("alarm latency-p99: threshold 300, template has 250"),) if firing_alarms else (),
        to_deploy=(text("ranker is 1f1f1f1f1f1f, lock expects ecececececec"),) if firing_alarms else (),
        deployed=deployed,
        verdict=verdict,
    )
    return EnvironmentStatus(name, "1" * 12, "eu-west-1", endpoints=(endpoint,))


def _rollout(outcome: str) -> PastRollout:
    strategy, planned = planned_shift(_LINEAR)
    fires = outcome != "completed"
    prefix = "tritonstack-prod-search"
    return PastRollout(
        endpoint=prefix,
        started=AT,
        seconds=1800.0 if not fires else 900.0,
        outcome=outcome,
        planned=planned,
        strategy=strategy,
        requests=tuple((60.0 * minute, 900.0 + 40 * (minute % 5)) for minute in range(-5, 30)),
        errors=tuple((60.0 * minute, 30.0) for minute in range(8, 12)) if fires else (),
        alarms=(f"{prefix}-main-latency-p99", f"{prefix}-main-server-errors"),
        firing_alarms=(AlarmPeriod(f"{prefix}-main-latency-p99", 540.0, 1020.0),) if fires else (),
    )


def _ranker(text: Text) -> ReportedModel:
    tensor = TensorSpec(name=text("TEXT"), datatype="BYTES", shape=(1,))
    scores = TensorSpec(name=text("scores"), datatype="FP32", shape=(-1, 100))
    steps = (
        GraphStep("ranker", "ensemble", (tensor.name,), (scores.name,)),
        GraphStep("tokenizer", "python", (tensor.name,), (text("input_ids"), text("attention_mask")), 1),
        GraphStep(
            "user-tower", text("onnxruntime"), (text("input_ids"), text("attention_mask")), (text("user"),), 1
        ),
        GraphStep("item-tower", "onnxruntime", (text("input_ids"),), (text("items"),), 1),
        GraphStep("scorer", "onnxruntime", (text("user"), text("items"), tensor.name), (scores.name,), 1),
    )
    parity = ParityReport(
        stage="served",
        cases=24,
        min_cosine=0.999998123,
        max_absolute_error=3.1e-6,
        max_relative_error=2e-5,
        min_top1_agreement=1.0,
        worst_case=text("test_inputs[3]"),
    )
    built = manifest(
        "ranker",
        digest=NEW,
        inputs=(tensor,),
        outputs=(scores,),
        parity=(parity.model_copy(update={"stage": "graph"}), parity),
        latency=tuple(
            LatencyReport(batch=size, requests=50, p50_ms=2.0 + size / 4, p99_ms=3.0 + size / 3)
            for size in (1, 4, 16, 32)
        ),
        candidates=tuple(_candidates(text)),
        archive_bytes=145_369_623,
    )
    return ReportedModel(
        "ranker",
        text("Ranks 100 items for a user."),
        "auto",
        NEW,
        built,
        steps,
        worst_example=text("test_inputs[3]: red running shoes <size 42> & more"),
        load_tests=(_load_test(text),),
    )


def _candidates(text: Text) -> list[CandidateReport]:
    rows = (
        ("fp32", "fp32", 0.99999999999, 9.1),
        ("fp32-fused", "fp32", 0.99999999998, 7.4),
        ("int8", "int8", 0.9991, 3.2),
    )
    return [
        CandidateReport(
            name=text(name),
            precision=precision,
            kept=name == "fp32-fused",
            reason=text(
                "the fastest within the tolerance" if name == "fp32-fused" else "cosine below 0.9999"
            ),
            parity=ParityReport(stage="graph", cases=24, min_cosine=cosine, max_absolute_error=1e-6),
            latency_ms={"1x16": latency / 3, "8x16": latency},
            size_bytes=90_000_000,
        )
        for name, precision, cosine, latency in rows
    ] + [
        CandidateReport(
            name=text("fp16"), precision="fp16", kept=False, reason=text("needs a GPU"), size_bytes=0
        )
    ]


def _load_test(text: Text) -> Event:
    levels = tuple(
        RecordedLevel(
            load=text(f"closed loop, {users} users"),
            is_trace=False,
            lowest_instances=1,
            highest_instances=1 if users < 64 else 2,
            answered_per_s=120.0 * users**0.7,
            answers=4_000,
            failed_percent=0.0,
            p50_ms=6.0 * users**0.3,
            p99_ms=11.0 * users**0.5,
            steady=True,
        )
        for users in (1, 4, 16, 64)
    )
    return Event(
        kind="load-tested",
        environment="dev",
        at="2026-11-25T10:00:00Z",
        by=text("mara"),
        artifacts=(TouchedArtifact(model="ranker", target="cpu", digest=NEW),),
        load_test=LoadTest(instance_type="ml.c7i.xlarge", real_instances=True, levels=levels),
    )


def _embedding(text: Text) -> ReportedModel:
    return ReportedModel("embedding", text("Sentence embeddings."), "fp32", NEW)


def _timeline(text: Text) -> list[tuple[str, HistoryEntry]]:
    kinds = ("verified", "deployed", "promoted", "rolled-back", "load-tested", "refuted", "built") * 5
    return [
        (
            "ranker",
            HistoryEntry(
                digest=NEW,
                kind=kind,
                environment="prod" if index % 2 else "dev",
                at=f"2026-11-{26 - index // 2:02}T{9 - index % 2:02}:00:00Z",
                by=text("mara"),
                commit=COMMIT,
                note=text("from dev"),
            ),
        )
        for index, kind in enumerate(kinds)
    ]
