"""What the gates of a promotion check: each entry of the source with its manifest, endpoints, and events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.operate.two_accounts import TwoAccounts, add_model, add_prod, two_accounts
from tests.projects import edit
from tritonstack.files.records.lock_writing import write_lock
from tritonstack.files.records.manifests import GenerationReport
from tritonstack.operate.artifacts.copying import EnvironmentAccess
from tritonstack.operate.promote.candidates import gate_results
from tritonstack.operate.promote.gates import Gate
from tritonstack.operate.promote.plans import decide

GATES = """\
protected: false
promotion:
  source: dev
  soaked_hours: 1
  min_cosine: 0.9
  performance: {search: {rate_per_instance: 40, p99_ms: 250}}
"""
DEPLOYED = "2026-11-10T08:00:00Z"


@pytest.fixture
def accounts(project) -> Iterator[TwoAccounts]:
    with two_accounts(project) as accounts:
        add_prod(project, GATES)
        yield accounts


def gates(accounts: TwoAccounts, model: str = "minilm") -> dict[Gate, str]:
    """Return the measured value of each gate of a model, in a promotion of all."""
    source, target = EnvironmentAccess(accounts.workspace("dev"), accounts.dev), accounts.workspace("prod")
    decision = decide(source.workspace, target)
    assert target.spec.promotion is not None
    assert gate_results(target.spec.promotion, decision, None, target) == ()
    return {
        result.gate: result.measured
        for result in gate_results(target.spec.promotion, decision, source, target)
        if result.subject.startswith(f"{model} ")
    }


def change_entry(accounts: TwoAccounts, **changes: Any) -> None:
    lock = accounts.lock("dev")
    entry = lock.models["minilm"]["cpu"].model_copy(update=changes)
    write_lock(accounts.project.lock_file("dev"), lock.with_entry("minilm", "cpu", entry))


def test_verdicts_count_since_the_deployment_of_each_artifact(accounts):
    manifest = accounts.build("minilm", b"minilm")
    accounts.happened("verified", manifest, "2026-11-09T08:00:00Z")
    assert gates(accounts)["verified"] == "not deployed"
    accounts.happened("deployed", manifest, DEPLOYED)
    assert gates(accounts)["verified"] == "not verified"
    accounts.happened("verified", manifest, "2026-11-10T09:00:00Z")
    assert gates(accounts)["verified"] == "passed on search"
    # Verdicts are read since the first deployment of all models.
    add_model(accounts.project, "ranker", "dev", "prod")
    later = accounts.build("ranker", b"ranker")
    accounts.happened("deployed", later, "2026-11-12T08:00:00Z", endpoint="ranker")
    assert gates(accounts)["verified"] == "passed on search"
    assert gates(accounts, "ranker")["verified"] == "not verified"


def test_only_endpoints_that_serve_the_entry_must_pass(accounts):
    """Another endpoint serves the model on other machines, and so another entry."""
    manifest = accounts.build("minilm", b"minilm")
    accounts.build("minilm", b"for a GPU", target="sm86-25.04")
    endpoint = "  gpu:\n    kind: ensemble\n    model: minilm\n    instance_type: ml.g5.xlarge\n"
    edit(accounts.project.environment_file("dev"), "endpoints:\n", f"endpoints:\n{endpoint}")
    accounts.happened("deployed", manifest, "2026-11-10T07:00:00Z", endpoint="gpu")
    accounts.happened("deployed", manifest, DEPLOYED)
    accounts.happened("verified", manifest, "2026-11-10T09:00:00Z")
    assert gates(accounts)["verified"] == "passed on search"


@pytest.mark.parametrize(
    ("lock", "measured"),
    [
        ({}, "unverified: of the manifest"),
        ({"spec_hash": "99" * 32, "unverified": "of the lock"}, "unverified: of the lock"),
        ({"spec_hash": "99" * 32, "unverified": None}, "compared"),
    ],
)
def test_reasons_for_unverified_answers_are_those_of_the_locked_build(accounts, lock, measured):
    """The same bytes may have been built again with other test inputs, which the manifest describes."""
    accounts.build("minilm", b"minilm", unverified=("of the manifest",))
    change_entry(accounts, **lock)
    assert gates(accounts)["allow_unverified"] == measured


@pytest.mark.parametrize(
    ("lock", "manifest", "measured"),
    [
        ({}, {}, "0.999900"),
        ({"figures": None, "spec_hash": "99" * 32}, {}, "0.999900"),
        ({}, {"generation": GenerationReport(cases=1, times=2, tokens=3)}, None),
    ],
    ids=["of the lock", "of the manifest", "text has nothing to compare with"],
)
def test_measured_figures(accounts, lock, manifest, measured):
    accounts.build("minilm", b"minilm", **manifest)
    change_entry(accounts, **lock)
    assert gates(accounts).get("min_cosine") == measured


def test_load_tests_are_read_for_objectives(accounts):
    manifest = accounts.build("minilm", b"minilm")
    accounts.happened("load-tested", manifest, "2026-11-09T08:00:00Z")
    assert "another version of tritonstack" in gates(accounts)["performance"]
