"""What an endpoint runs: image, data, environment, and network of its models."""

from __future__ import annotations

import pytest

from tests.stacks.templates import only, properties

MODEL = "AWS::SageMaker::Model"


def arguments(pool: int) -> str:
    """Return the tritonserver options for a pool of this many threads."""
    return (
        "--disable-auto-complete-config --backend-config=onnxruntime,enable-global-threadpool=1 "
        f"--backend-config=onnxruntime,intra_op_thread_count={pool}"
    )


@pytest.fixture
def plain(sample):
    return sample.endpoint("plain")


def test_model_waits_for_the_roles_policy(plain):
    policy_id, _ = only(plain, "AWS::IAM::Policy")
    _, model = only(plain, MODEL)
    assert policy_id in model["DependsOn"]


def test_model_serves_the_locked_artifact_without_a_network(plain):
    model = properties(plain, MODEL)
    assert model["EnableNetworkIsolation"] is True
    assert "ModelName" not in model
    assert "VpcConfig" not in model
    bucket = "s3://tritonstack-sample-artifacts-123456789012-eu-central-1"
    assert model["PrimaryContainer"] == {
        "Image": "763104351884.dkr.ecr.eu-central-1.amazonaws.com/sagemaker-tritonserver:25.04-py3-cpu",
        "ModelDataUrl": f"{bucket}/models/encoder/{'ab' * 32}/model.tar.gz",
        "Environment": {
            "OMP_NUM_THREADS": "4",
            "RAYON_NUM_THREADS": "4",
            "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "encoder",
            "SAGEMAKER_TRITON_ADDITIONAL_ARGS": arguments(4),
            "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
            "SAGEMAKER_TRITON_PING_MODE": "ready",
            "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
            "SAGEMAKER_TRITON_THREAD_COUNT": "4",
        },
    }


def test_gpu_endpoints_run_the_gpu_image(sample):
    container = properties(sample.endpoint("accelerated"), MODEL)["PrimaryContainer"]
    assert container["Image"].endswith(":25.04-py3")


def test_single_models_are_named_to_triton_and_the_files_own_variables_pass(every):
    assert properties(every.endpoint("single"), MODEL)["PrimaryContainer"]["Environment"] == {
        "OMP_NUM_THREADS": "4",
        "RAYON_NUM_THREADS": "4",
        "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "tokens",
        "SAGEMAKER_TRITON_ADDITIONAL_ARGS": arguments(4),
        "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
        "SAGEMAKER_TRITON_PING_MODE": "ready",
        "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
        "SAGEMAKER_TRITON_THREAD_COUNT": "4",
        "TOKENIZERS_PARALLELISM": "false",
    }


def test_multi_model_containers_use_the_live_ping_mode(every):
    """With ping mode `ready`, SageMaker would kill the container if one of its models fails to load."""
    model = properties(every.endpoint("shelf"), MODEL)
    assert model["PrimaryContainer"] == {
        "Image": "763104351884.dkr.ecr.us-east-1.amazonaws.com/sagemaker-tritonserver:25.04-py3-cpu",
        "Mode": "MultiModel",
        "ModelDataUrl": "s3://tritonstack-every-artifacts-123456789012-us-east-1"
        "/endpoints/tritonstack-every-shelf/",
        "MultiModelConfig": {"ModelCacheSetting": "Disabled"},
        "Environment": {
            "OMP_NUM_THREADS": "2",
            "RAYON_NUM_THREADS": "2",
            "SAGEMAKER_TRITON_ADDITIONAL_ARGS": arguments(3),
            "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
            "SAGEMAKER_TRITON_PING_MODE": "live",
            "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
        },
    }


def test_models_are_in_the_environments_network(every):
    single = every.endpoint("single")
    assert properties(single, MODEL)["VpcConfig"] == {
        "Subnets": {"Ref": "SubnetIds"},
        "SecurityGroupIds": {"Ref": "SecurityGroupIds"},
    }
    parameters = single.to_json()["Parameters"]
    for name, parameter in (("SubnetIds", "subnet-ids"), ("SecurityGroupIds", "security-group-ids")):
        assert parameters[name] == {
            "Type": "AWS::SSM::Parameter::Value<List<String>>",
            "Default": f"/tritonstack-every/{parameter}",
            "Description": "Published by another stack of this environment",
        }


def test_network_isolation_can_be_disabled(every):
    assert properties(every.endpoint("component"), MODEL)["EnableNetworkIsolation"] is False


def test_each_variant_has_its_own_model_and_all_have_one_role(every):
    """A role of its own would be deleted with a variant that may still serve."""
    compared = every.endpoint("compared")
    urls = {
        m["Properties"]["PrimaryContainer"]["ModelDataUrl"].split("/models/")[1].split("/")[0]: m
        for m in compared.find_resources(MODEL).values()
    }
    assert set(urls) == {"encoder", "ranker"}
    role, _ = only(compared, "AWS::IAM::Role")
    assert {m["Properties"]["ExecutionRoleArn"]["Fn::GetAtt"][0] for m in urls.values()} == {role}


@pytest.mark.parametrize("kind", [MODEL, "AWS::SageMaker::EndpointConfig"])
def test_what_an_endpoint_may_still_serve_is_retained(every, kind):
    """Whether it is replaced, removed, or created by an update that fails."""
    found = [r for name in ("single", "compared", "component") for r in resources(every, name, kind)]
    assert len(found) >= 3
    assert {(r["DeletionPolicy"], r["UpdateReplacePolicy"]) for r in found} == {("Retain", "Retain")}


def resources(every, name, kind):
    return every.endpoint(name).find_resources(kind).values()


def test_gpu_variant_with_a_cpu_variant_runs_the_gpu_image(every):
    images = [
        m["Properties"]["PrimaryContainer"]["Image"].rsplit(":")[1]
        for m in every.endpoint("shadowed").find_resources(MODEL).values()
    ]
    assert sorted(images) == ["25.04-py3", "25.04-py3-cpu"]
