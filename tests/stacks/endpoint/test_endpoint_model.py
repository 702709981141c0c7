"""What an endpoint runs: image, data, environment, and network of its models."""

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
