"""Errors in project files, compared as whole messages."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.projects import ENVIRONMENT
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import Record, TextualDumper, load_document, load_yaml
from tritonstack.spec.environments.environment import EnvironmentSpec


def complaint(tmp_path: Path, text: str, record: type[Record] = EnvironmentSpec) -> str:
    file = tmp_path / "dev.yaml"
    file.write_text(text)
    with pytest.raises(InvalidFilesError) as caught:
        load_document(file, record)
    assert caught.value.exit_code == 2
    return str(caught.value).replace(str(tmp_path) + "/", "")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "triton_release:",
            "triton_relase: '25.04'\ntriton_release:",
            "dev.yaml:4: triton_relase: unknown key\n  help: did you mean 'triton_release'?",
        ),
        (
            "    kind:",
            "    zzz: 1\n    kind:",
            "dev.yaml:7: endpoints.search.zzz: unknown key\n  help: known keys here: alarms, asynchronous, "
            "challenger, components, data_capture, download_timeout_s, environment, image, "
            "inference_ami, instance_type, kind, log_retention_days, metrics, model, network_isolation, "
            "rollout, scaling, shadow, startup_timeout_s",
        ),
        (
            "    kind: ensemble\n    model: minilm",
            "    kind: multi-model\n    models: [minilm]\n    shadow: {}",
            "dev.yaml:9: endpoints.search.shadow: kind: multi-model does not support this key; "
            "kind: single or ensemble does\n  help: remove it; known keys here: alarms, asynchronous, "
            "components, data_capture, download_timeout_s, environment, image, inference_ami, instance_type, "
            "kind, log_retention_days, metrics, model_cache, models, network_isolation, rollout, "
            "scaling, startup_timeout_s",
        ),
        (
            "    kind: ensemble",
            "    kind: ensemble\n    rollout: {strategy: linear, percent: 20}",
            "dev.yaml:8: endpoints.search.rollout.percent: unknown key\n  help: did you mean 'step_percent'?",
        ),
        (
            "    kind: ensemble",
            "    kind: ensemble\n    rollout: {strategy: rolling, bake_s: 20}",
            "dev.yaml:8: endpoints.search.rollout.bake_s: strategy: rolling does not support this key; "
            "strategy: all-at-once does\n  help: remove it; known keys here: batch_percent, roll_back_on, "
            "strategy, wait_s",
        ),
        (
            'account: "111111111111"',
            "account: 111111111111",
            "dev.yaml:2: account: expected text, got the number 111111111111\n  help: put it in quotes",
        ),
        (
            'account: "111111111111"',
            'account: "1111"',
            "dev.yaml:2: account: invalid AWS account '1111'\n  help: write its 12 digits in quotes",
        ),
        (
            "ml.c7i.xlarge",
            "ml.c7i.xlrge",
            "dev.yaml:9: endpoints.search.instance_type: unknown instance type 'ml.c7i.xlrge'\n"
            "  help: did you mean 'ml.c7i.xlarge'?",
        ),
        (
            "ml.c7i.xlarge",
            "ml.c7g.xlarge",
            "dev.yaml:9: endpoints.search.instance_type: ml.c7g.xlarge has Arm processors, but SageMaker's "
            "Triton images support x86-64 CPUs and NVIDIA GPUs\n"
            "  help: choose a type such as ml.c7i.xlarge or ml.g5.xlarge",
        ),
        (
            "kind: ensemble",
            "kind: ensembel",
            "dev.yaml:7: endpoints.search.kind: 'ensembel' is not one of 'single', "
            "'ensemble' or 'multi-model'\n"
            "  help: did you mean 'ensemble'?",
        ),
        (
            "eu-west-1",
            "eu-wst-1",
            "dev.yaml:3: region: SageMaker publishes no Triton image in region 'eu-wst-1'\n"
            "  help: did you mean 'eu-west-1'?",
        ),
        (
            "    model: minilm\n",
            "",
            "dev.yaml:6: endpoints.search.model: required key is missing\n  help: add the key `model`",
        ),
        (
            "name: dev",
            "name: Dev!",
            "dev.yaml:1: name: invalid name 'Dev!'\n  help: use up to 40 lowercase letters, digits, and "
            "single hyphens, starting with a letter",
        ),
        (
            "region: eu-west-1",
            "region: eu-west-1\nregion: eu-west-2",
            "dev.yaml:4: region: duplicate key\n  help: keep one of the two",
        ),
        (
            "region: eu-west-1",
            "region: eu-west-1\nnetwork: {create: {}, existing: {vpc_id: vpc-12345678, "
            "subnet_ids: [subnet-12345678, subnet-12345679], security_group_ids: [sg-12345678]}}",
            "dev.yaml:4: network.existing: expected exactly one of `create` and `existing`, got `create` "
            "(line 4) and `existing` (line 4)\n  help: remove one of the two",
        ),
        (
            "region: eu-west-1",
            "region:",
            "dev.yaml:3: region: key has no value\n  help: give a value",
        ),
        (
            "region: eu-west-1",
            "region: eu-west-1\ntags:",
            "dev.yaml:4: tags: key has no value\n  help: give a value, or remove the key",
        ),
        (
            "region: eu-west-1",
            "region: eu-west-1\ntags: {team: ~}",
            "dev.yaml:4: tags.team: key has no value\n  help: give a value, or remove the key",
        ),
        (
            "    kind: ensemble",
            "    kind:",
            "dev.yaml:7: endpoints.search.kind: key has no value\n  help: give a value",
        ),
        (
            "    kind: ensemble",
            "    kind: ensemble\n    alarms: {latency_p99_ms: 1e-3x}",
            'dev.yaml:8: endpoints.search.alarms.latency_p99_ms: expected a number, got "1e-3x"\n'
            "  help: write a number",
        ),
        (
            "  search:",
            "  ~:",
            "dev.yaml:6: endpoints.~: expected a text key\n  help: put it in quotes",
        ),
        (
            "region: eu-west-1",
            "region: eu-west-1\n? [a, b]\n: c",
            "dev.yaml:4: ?: expected a text key\n  help: put it in quotes",
        ),
        (
            "region: eu-west-1",
            "region: !!binary aGVsbG8=",
            "dev.yaml:3: region: unsupported YAML tag tag:yaml.org,2002:binary\n"
            "  help: write the value without a tag",
        ),
        (
            "region: eu-west-1",
            'region: "\\ud800"',
            "dev.yaml:3: invalid YAML: found invalid Unicode character escape code\n"
            "  help: check this line and the ones before it: indentation, quotes, brackets, `key: value`",
        ),
        (
            "region: eu-west-1",
            "region: eu-west-1\nalarms: &loop [*loop]",
            "dev.yaml:4: the alias *loop is inside the value that it repeats\n  help: write out the value",
        ),
        (
            "name: dev",
            "name: dev-endpoint",
            "dev.yaml:1: 'tritonstack-dev-endpoint' contains 'endpoint', which separates an environment's "
            "own stacks from its endpoints' stacks\n  help: choose another name or name_prefix",
        ),
        (
            "    kind: ensemble",
            "    kind: ensemble\n    alarms: {latency_p99_ms: .inf}",
            "dev.yaml:8: endpoints.search.alarms.latency_p99_ms: expected a number, got Infinity\n"
            "  help: write a number",
        ),
        (
            "    kind: ensemble",
            "    kind: ensemble\n    asynchronous:",
            "dev.yaml:8: endpoints.search.asynchronous: key has no value\n"
            "  help: write `{}` for the defaults, give a value, or remove the key",
        ),
        (
            "    kind: ensemble",
            "    kind: ensemble\n    data_capture: {sampling_percent: 0}",
            "dev.yaml:8: endpoints.search.data_capture.sampling_percent: expected a number >= 1, got 0\n"
            "  help: write a number >= 1",
        ),
        (
            "    kind: ensemble\n    model: minilm",
            "    kind: multi-model\n    models: []",
            "dev.yaml:8: endpoints.search.models: expected at least 1 item, got 0\n  help: add an item",
        ),
        (
            "    kind: ensemble",
            "    kind: ensemble\n    environment: {SAGEMAKER_TRITON_LOG_VERBOSE: yes}",
            "dev.yaml:8: endpoints.search.environment.SAGEMAKER_TRITON_LOG_VERBOSE: expected text, got "
            "true\n  help: put it in quotes",
        ),
        (
            "    model: minilm",
            "    scaling: 3\n    model: minilm",
            "dev.yaml:8: endpoints.search.scaling: expected a mapping, got 3\n  help: write a mapping",
        ),
        (
            "  search:",
            "\tsearch:",
            "dev.yaml:6: invalid YAML: found character that cannot start any token\n"
            "  help: indent with spaces, not tabs; put a value that starts with @, ` or % in quotes",
        ),
    ],
)
def test_one_violation_gives_one_exact_message(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert old in ENVIRONMENT
    assert complaint(tmp_path, ENVIRONMENT.replace(old, new)) == expected


def test_every_violation_is_reported_at_once(tmp_path: Path) -> None:
    text = ENVIRONMENT.replace("eu-west-1", "mars-1").replace("ml.c7i.xlarge", "ml.x.large")
    lines = complaint(tmp_path, text.replace("kind:", "knd:")).splitlines()
    places = [line.split(" ")[0] for line in lines if not line.startswith("  help")]
    # Line 9 is not among them: the valid keys of an endpoint depend on its missing kind.
    assert places == ["dev.yaml:3:", "dev.yaml:6:", "dev.yaml:7:"]


def test_minimum_above_maximum_is_named_at_the_scaling_block(tmp_path: Path) -> None:
    text = ENVIRONMENT + "    scaling:\n      min_instances: 4\n      max_instances: 2\n"
    assert complaint(tmp_path, text) == (
        "dev.yaml:10: endpoints.search.scaling: max_instances (2) is below min_instances (4)\n"
        "  help: raise max_instances or lower min_instances"
    )


@pytest.mark.parametrize(("text", "words"), [("", "the file is empty"), ("a: [1", "invalid YAML")])
def test_invalid_yaml_is_reported_as_such(tmp_path: Path, text: str, words: str) -> None:
    assert words in complaint(tmp_path, text)


@pytest.mark.parametrize("text", ["- 1\n", "just words\n", "3\n"])
def test_file_without_a_mapping_is_an_error(tmp_path: Path, text: str) -> None:
    assert complaint(tmp_path, text).startswith("dev.yaml:1: ")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidFilesError, match=r"nowhere\.yaml: file not found"):
        load_document(tmp_path / "nowhere.yaml", EnvironmentSpec)


def test_digits_of_other_scripts_are_not_an_account_id(tmp_path: Path) -> None:
    assert "invalid AWS account" in complaint(tmp_path, ENVIRONMENT.replace("1" * 12, "\u0661" * 12))


def test_shared_values_of_two_endpoints_are_allowed(tmp_path: Path) -> None:
    file = tmp_path / "dev.yaml"
    file.write_text(ENVIRONMENT.replace("search:", "search: &search") + "  other:\n    <<: *search\n")
    endpoints = load_document(file, EnvironmentSpec).record.endpoints
    assert endpoints["other"] == endpoints["search"]


def test_dates_are_read_as_text(tmp_path: Path) -> None:
    # YAML would parse this value as a date, and the message would name a type that the user did not write.
    assert "'2025-04-01'" in complaint(tmp_path, ENVIRONMENT.replace('"25.04"', "2025-04-01"))


def test_a_section_without_a_value(tmp_path: Path) -> None:
    found = complaint(tmp_path, ENVIRONMENT.partition("  search:")[0])
    assert found == "dev.yaml:5: endpoints: key has no value\n  help: give a value"


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
