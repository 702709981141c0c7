"""One part per model: graph, parity, candidates, and latency."""

from __future__ import annotations

from collections.abc import Iterator

from tritonstack.records.manifests import Manifest
from tritonstack.workflows.reports.page.figures import (
    candidate_chart,
    ensemble_graph,
    latency_chart,
    load_test_chart,
)
from tritonstack.workflows.reports.page.markup import Child, Markup, absent, join, small, table, tag
from tritonstack.workflows.reports.page.texts import digest, megabytes, number
from tritonstack.workflows.reports.report_data import ReportData, ReportedModel

_BUILD = "`tritonstack build <env>` produces it."
_STAGES = {"graph": "exported graph", "served": "packed archive in Triton"}


def artifacts(data: ReportData) -> Markup:
    """Return each model with the artifact of its present files."""
    if not data.models:
        return absent("No model is served.", "`tritonstack new model` adds one.")
    return join(_model(model) for model in data.models)


def _model(model: ReportedModel) -> Markup:
    name = f"model-{model.name}"
    return tag(
        "article",
        tag("h3", model.name, id=name),
        tag("p", *_facts(model), class_="facts-line"),
        tag("h4", "Graph"),
        _graph(model),
        *_measured(model),
        aria_labelledby=name,
        class_="model",
    )


def _facts(model: ReportedModel) -> Iterator[Child]:
    yield f"{model.description} "
    if model.digest:
        yield from ("Artifact ", digest(model.digest))
    if model.manifest:
        built = model.manifest
        yield f", {built.target}, {built.precision}, {megabytes(built.archive_bytes)}"
        yield f", checked by Triton {built.served_by.triton} ({built.served_by.kind})"


def _graph(model: ReportedModel) -> Markup:
    if not model.steps:
        return absent("The graph is in the artifact, which is not on this machine.", _BUILD)
    return ensemble_graph(model.name, model.steps, model.manifest)


def _measured(model: ReportedModel) -> Iterator[Markup]:
    built = model.manifest
    if built is None:
        yield absent("Parity, candidates, and latency are measured by a build.", _BUILD)
        return
    yield from (tag("h4", "Parity with the framework"), _parity(model, built))
    yield from (tag("h4", "Precisions measured by the build"), _candidates(model, built))
    latency = tag("div", tag("h4", "Latency in the build"), latency_chart(model.name, built.latency))
    yield tag("div", latency, _load_tests(model), class_="charts")


def _parity(model: ReportedModel, built: Manifest) -> Markup:
    if built.generation is not None:
        check = built.generation
        compared = f"; {check.compared} completions equal the framework's" if check.compared else ""
        return tag("p", f"{check.cases} prompts, each answered {check.times} times alike{compared}.")
    if not built.parity:
        reasons = "; ".join(built.unverified) or "there is no framework to compare with"
        return tag("p", f"Not compared: {reasons}.", class_="absent")
    rows = [
        (
            _STAGES[report.stage],
            str(report.cases),
            number(report.min_cosine, "{:.9f}"),
            number(report.max_absolute_error, "{:.1e}"),
            number(report.max_relative_error, "{:.1e}"),
            number(report.min_top1_agreement, "{:.3f}"),
            report.worst_case or "not recorded",
        )
        for report in built.parity
    ]
    head = ("Compared", "Outputs", "Cosine ≥", "Error ≤", "Relative ≤", "Top-1 ≥", "Worst example")
    shown = table(f"Parity of {model.name}", head, rows)
    if model.worst_example:
        return join((shown, small("Worst example: ", tag("q", model.worst_example))))
    if not any(report.worst_case for report in built.parity):
        return join(
            (shown, absent("An early version built this artifact without the worst example.", _BUILD))
        )
    return shown


def _candidates(model: ReportedModel, built: Manifest) -> Markup:
    if len(built.candidates) < 2:
        only = "one candidate was built" if built.candidates else "no candidates were measured"
        text = f"{only.capitalize()}: model.yaml has precision {model.precision}."
        return absent(text, "`precision: auto` measures several.")
    return candidate_chart(model.name, built.candidates)


def _load_tests(model: ReportedModel) -> Markup:
    unread = [
        absent(f"The load tests in {name} were not read: {reason}.", "")
        for name, reason in model.unread.items()
    ]
    content = []
    if model.load_tests:
        content.append(load_test_chart(model.name, model.load_tests))
    elif not unread:
        remedy = "`tritonstack bench <env> <endpoint> --record` records one."
        content.append(absent("No load test is recorded.", remedy))
    return tag("div", tag("h4", "Latency under load"), *content, *unread)
