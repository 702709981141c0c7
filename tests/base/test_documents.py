"""Errors in project files: line, field, code, and the words that matter."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.projects import ENVIRONMENT
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.base.yaml import Record, TextualDumper, load_document, load_yaml
from tritonstack.files.environment.environment import EnvironmentSpec

Violations = tuple[FileViolation, ...]


def violations(tmp_path: Path, text: str, record: type[Record] = EnvironmentSpec) -> Violations:
    file = tmp_path / "dev.yaml"
    file.write_text(text)
    with pytest.raises(InvalidFilesError) as caught:
        load_document(file, record)
    assert caught.value.exit_code == 2
    assert {violation.file for violation in caught.value.violations} == {file}
    return caught.value.violations


ACCOUNT = 'account: "111111111111"'
REGION = "region: eu-west-1"
SEARCH = "endpoints.search"
KIND, MODEL = "    kind: ensemble", "    model: minilm"
NETWORK = (
    "network: {create: {}, existing: {vpc_id: vpc-12345678, subnet_ids: [subnet-12345678, subnet-12345679], "
    "security_group_ids: [sg-12345678]}}"
)


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "code", "words"),
    [
        # Keys, and those of another record type of the same union.
        (
            "triton_release:",
            "triton_relase: 1\ntriton_release:",
            4,
            "triton_relase",
            "TS104",
            "triton_release",
        ),
        ("    kind:", "    zzz: 1\n    kind:", 7, f"{SEARCH}.zzz", "TS104", "alarms, startup_timeout_s"),
        (
            f"{KIND}\n{MODEL}",
            "    kind: multi-model\n    models: [minilm]\n    shadow: {}",
            *(9, f"{SEARCH}.shadow", "TS104", "multi-model single ensemble model_cache, models,"),
        ),
        (
            KIND,
            f"{KIND}\n    rollout: {{strategy: linear, percent: 20}}",
            *(8, f"{SEARCH}.rollout.percent", "TS104", "'step_percent'?"),
        ),
        (
            KIND,
            f"{KIND}\n    rollout: {{strategy: rolling, bake_s: 20}}",
            *(8, f"{SEARCH}.rollout.bake_s", "TS104", "rolling all-at-once batch_percent, wait_s"),
        ),
        (f"{MODEL}\n", "", 6, f"{SEARCH}.model", "TS106", "`model`"),
        (REGION, f"{REGION}\nregion: eu-west-2", 4, "region", "TS102", "duplicate"),
        ("  search:", "  ~:", 6, "endpoints.~", "TS102", "quotes"),
        (REGION, f"{REGION}\n? [a, b]\n: c", 4, "?", "TS102", "quotes"),
        (
            REGION,
            f"{REGION}\n{NETWORK}",
            *(4, "network.existing", "TS114", "`create` `existing` 4"),
        ),
        # Keys without a value.
        (REGION, "region:", 3, "region", "TS106", "value"),
        (REGION, f"{REGION}\ntags:", 4, "tags", "TS106", "remove"),
        (REGION, f"{REGION}\ntags: {{team: ~}}", 4, "tags.team", "TS106", "remove"),
        (KIND, "    kind:", 7, f"{SEARCH}.kind", "TS106", "value"),
        (KIND, f"{KIND}\n    asynchronous:", 8, f"{SEARCH}.asynchronous", "TS106", "`{}` remove"),
        # Values.
        (ACCOUNT, "account: 111111111111", 2, "account", "TS111", "111111111111 quotes"),
        (ACCOUNT, 'account: "1111"', 2, "account", "TS111", "'1111' 12"),
        (ACCOUNT, f"account: '{chr(0x661) * 12}'", 2, "account", "TS111", "12"),
        ("c7i.xlarge", "c7i.xlrge", 9, f"{SEARCH}.instance_type", "TS111", "ml.c7i.xlrge 'ml.c7i.xlarge'?"),
        ("ensemble", "ensembel", 7, f"{SEARCH}.kind", "TS111", "'ensembel' 'ensemble'? 'multi-model'"),
        ("eu-west-1", "eu-wst-1", 3, "region", "TS111", "'eu-wst-1' 'eu-west-1'?"),
        ("name: dev", "name: Dev!", 1, "name", "TS111", "'Dev!' 40"),
        ("name: dev", "name: dev-endpoint", 1, "", "TS111", "'tritonstack-dev-endpoint' 'endpoint'"),
        # YAML would read a date here, and the message would name a type that the user did not write.
        ('"25.04"', "2025-04-01", 4, "triton_release", "TS111", "'2025-04-01'"),
        (
            KIND,
            f"{KIND}\n    alarms: {{latency_p99_ms: 1e-3x}}",
            *(8, f"{SEARCH}.alarms.latency_p99_ms", "TS111", 'number "1e-3x"'),
        ),
        (
            KIND,
            f"{KIND}\n    alarms: {{latency_p99_ms: .inf}}",
            *(8, f"{SEARCH}.alarms.latency_p99_ms", "TS111", "number Infinity"),
        ),
        (
            KIND,
            f"{KIND}\n    data_capture: {{sampling_percent: 0}}",
            *(8, f"{SEARCH}.data_capture.sampling_percent", "TS111", "1 0"),
        ),
        (f"{KIND}\n{MODEL}", "    kind: multi-model\n    models: []", 8, f"{SEARCH}.models", "TS111", "1 0"),
        (
            KIND,
            f"{KIND}\n    environment: {{SAGEMAKER_TRITON_LOG_VERBOSE: yes}}",
            *(8, f"{SEARCH}.environment.SAGEMAKER_TRITON_LOG_VERBOSE", "TS111", "text true quotes"),
        ),
        (MODEL, f"    scaling: 3\n{MODEL}", 8, f"{SEARCH}.scaling", "TS111", "mapping 3"),
        # YAML itself.
        (REGION, "region: !!binary aGVsbG8=", 3, "region", "TS102", "tag:yaml.org,2002:binary"),
        (REGION, 'region: "\\ud800"', 3, "", "TS102", "Unicode"),
        (REGION, f"{REGION}\nalarms: &loop [*loop]", 4, "", "TS102", "*loop"),
        ("  search:", "\tsearch:", 6, "", "TS102", "tabs"),
    ],
)
def test_one_violation_has_its_line_field_and_words(
    tmp_path: Path, old: str, new: str, line: int, field: str, code: str, words: str
) -> None:
    assert old in ENVIRONMENT
    (violation,) = violations(tmp_path, ENVIRONMENT.replace(old, new))
    assert (violation.line, violation.field, violation.code) == (line, field, code), violation
    text = f"{violation.message} {violation.remedy}"
    assert [word for word in words.split() if word not in text] == [], text


def test_every_violation_is_reported_at_once(tmp_path: Path) -> None:
    text = ENVIRONMENT.replace("eu-west-1", "mars-1").replace("ml.c7i.xlarge", "ml.x.large")
    # Line 9 is not among them: the valid keys of an endpoint depend on its missing kind.
    assert [found.line for found in violations(tmp_path, text.replace("kind:", "knd:"))] == [3, 6, 7]


@pytest.mark.parametrize("text", ["- 1\n", "just words\n", "3\n"])
def test_file_without_a_mapping_is_an_error(tmp_path: Path, text: str) -> None:
    assert [violation.line for violation in violations(tmp_path, text)] == [1]


def test_shared_values_of_two_endpoints_are_allowed(tmp_path: Path) -> None:
    file = tmp_path / "dev.yaml"
    file.write_text(ENVIRONMENT.replace("search:", "search: &search") + "  other:\n    <<: *search\n")
    endpoints = load_document(file, EnvironmentSpec).record.endpoints
    assert endpoints["other"] == endpoints["search"]


def test_a_section_without_a_value(tmp_path: Path) -> None:
    (violation,) = violations(tmp_path, ENVIRONMENT.partition("  search:")[0])
    assert (violation.line, violation.field, violation.code) == (5, "endpoints", "TS106")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1e3", 1000.0),
        ("1E+3", 1000.0),
        ("-1.5e3", -1500.0),
        (".5e1", 5.0),
        ("1.e2", 100.0),
        ("1.5", 1.5),
        ("e3", "e3"),
        ("1e", "1e"),
        ("1e3x", "1e3x"),
        ("'1e3'", "1e3"),
    ],
)
def test_numbers_with_an_exponent(text: str, value: object) -> None:
    found = load_yaml(text)
    assert (type(found), found) == (type(value), value)
    assert load_yaml(yaml.dump([value], Dumper=TextualDumper)) == [value]
