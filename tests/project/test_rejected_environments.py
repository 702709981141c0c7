"""Every error of an environment file: the whole message, its field, and its remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.environments import NAME, write_environment
from tests.project.one_endpoint import complaints, environment
from tritonstack.project.loading import load_workspace

REJECTED = yaml.safe_load((Path(__file__).parent / "rejected_environments.yaml").read_text())

LIMITS = {
    "a value that is too long": (
        f"environment: {{OWN: {'x' * 1025}}}",
        "endpoints.e.environment.OWN: expected a value of at most 1,024 bytes, got 1,025 (SageMaker's "
        "limit) -- shorten it, or move it into the model",
    ),
    "a name that is too long": (
        f"environment: {{? {'X' * 1025} : x}}",
        f"endpoints.e.environment.{'X' * 1025}: expected a name of at most 1,024 bytes, got 1,025 "
        "(SageMaker's limit) -- shorten it, or move it into the model",
    ),
    "too many variables": (
        f"environment: {{{', '.join(f'OWN_{index}: x' for index in range(98))}}}",
        "endpoints.e.environment: expected at most 100 variables, got 106 with the 8 that every container "
        "gets (SageMaker's limit) -- move some settings into the model",
    ),
    "too much in all": (
        f"environment: {{{', '.join(f'OWN_{index}: {chr(120) * 1000}' for index in range(33))}}}",
        "endpoints.e.environment: expected at most 32,768 bytes of names and values, got 33,615 (SageMaker's "
        "limit) -- move some settings into the model",
    ),
}


@pytest.mark.parametrize("name", REJECTED)
def test_each_error_names_field_cause_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rejection = REJECTED[name]
    expected = f"endpoints.e.{rejection['field']}: {rejection['message']} -- {rejection['remedy']}"
    assert complaints(tmp_path, environment(rejection["endpoint"])) == [expected]


@pytest.mark.parametrize("name", LIMITS)
def test_the_limits_of_environment_variables(tmp_path: Path, name: str) -> None:
    endpoint, expected = LIMITS[name]
    assert complaints(tmp_path, environment(endpoint)) == [expected]


@pytest.mark.parametrize(
    ("release", "endpoint", "expected"),
    [
        (
            "25.09",
            "instance_type: ml.g5.xlarge, inference_ami: al2-ami-sagemaker-inference-gpu-2-1",
            "endpoints.e.inference_ami: al2-ami-sagemaker-inference-gpu-2-1 has driver 535, too old for "
            "CUDA 13.0.1 in Triton 25.09 -- write al2023-ami-sagemaker-inference-gpu-4-1, or remove "
            "inference_ami to choose it automatically",
        ),
        (
            "24.09",
            "environment: {SAGEMAKER_TRITON_INFERENCE_TYPE: generate}",
            "endpoints.e.environment.SAGEMAKER_TRITON_INFERENCE_TYPE: the image of Triton 24.09 "
            "ignores this variable; supported since 25.04 -- remove it, or choose a newer triton_release",
        ),
    ],
)
def test_options_unsupported_by_the_release_are_rejected(
    tmp_path: Path, release: str, endpoint: str, expected: str
) -> None:
    assert complaints(tmp_path, environment(endpoint, triton_release=release)) == [expected]


def test_gpu_unsupported_by_the_cuda_of_the_release(tmp_path: Path) -> None:
    data = environment("instance_type: ml.g7e.2xlarge", triton_release="24.09", region="us-east-1")
    assert complaints(tmp_path, data) == [
        "endpoints.e.instance_type: Triton 24.09 has CUDA 12.6.1, but ml.g7e.2xlarge's RTX PRO Server "
        "6000 (compute capability 12.0) needs CUDA 12.8 -- choose a newer triton_release, or an older GPU"
    ]


def test_violation_shared_by_two_variants_is_reported_once(tmp_path: Path) -> None:
    assert len(complaints(tmp_path, environment("instance_type: ml.p3.2xlarge, shadow: {share: 0.5}"))) == 1


def test_price_implies_that_the_region_offers_the_type(tmp_path: Path) -> None:
    data = environment("instance_type: ml.p5.48xlarge", prices={"ml.p5.48xlarge": 70.0})
    load_workspace(write_environment(tmp_path, data), NAME)


def test_every_violation_of_an_endpoint_is_reported_together(tmp_path: Path) -> None:
    endpoint = "asynchronous: {}, components: {memory_mb: 9000}, alarms: {}, rollout: {strategy: canary}"
    fields = [complaint.split(":")[0] for complaint in complaints(tmp_path, environment(endpoint))]
    assert fields == [
        "endpoints.e.components",
        "endpoints.e.components.memory_mb",
        "endpoints.e.rollout.strategy",
    ]


@pytest.mark.parametrize(
    "endpoint",
    [
        "asynchronous: {}, scaling: {min_instances: 0}",
        "components: {memory_mb: 1024}, scaling: {min_instances: 0}",
        "instance_type: ml.t2.medium, scaling: {min_instances: 2, max_instances: 2}",
        "scaling: {min_instances: 2, max_instances: 2}, rollout: {strategy: canary, percent: 50}",
        # The smallest batches and the longest time limits: what starts is quicker than those.
        "scaling: {min_instances: 20, max_instances: 20}, rollout: {strategy: rolling, batch_percent: 5}, "
        "startup_timeout_s: 3600, download_timeout_s: 3600",
        "challenger: {}, rollout: {strategy: all-at-once, roll_back_on: [latency-p99, overhead-p99, "
        "server-errors, client-errors, triton-errors]}",
        "kind: multi-model, instance_type: ml.g5.16xlarge",
        "instance_type: ml.g5.xlarge, inference_ami: al2-ami-sagemaker-inference-gpu-3-1",
        'environment: {SAGEMAKER_TRITON_LOG_VERBOSE: "2"}',
        "environment: {SAGEMAKER_TRITON_ADDITIONAL_ARGS: --load-model=x}",
        f"environment: {{{', '.join(f'OWN_{index}: x' for index in range(92))}}}",
        f"environment: {{OWN: {'x' * 1024}}}",
        "components: {memory_mb: 8191, max_copies: 2}",
        "instance_type: ml.g5.xlarge, scaling: {gpu_utilization_percent: 60}",
    ],
)
def test_values_at_the_limits_are_accepted(tmp_path: Path, endpoint: str) -> None:
    load_workspace(write_environment(tmp_path, environment(endpoint)), NAME)
