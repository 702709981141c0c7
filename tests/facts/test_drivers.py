"""Which host image an instance gets for a release, and which ones are rejected."""

import botocore.session
import pytest

from tritonstack.facts.drivers import HOST_IMAGES, NEWEST, ami_violation, chosen_ami, cuda_violation
from tritonstack.facts.hardware import INSTANCE_TYPES, InstanceType
from tritonstack.facts.releases import RELEASES, TritonRelease
from tritonstack.files.endpoint.endpoint import InferenceAmi

GPU_2, GPU_2_1, GPU_3_1, GPU_4_1 = HOST_IMAGES


def test_gpu_host_images_are_the_sagemaker_ones():
    model = botocore.session.get_session().get_service_model("sagemaker")
    known = set(model.shape_for("ProductionVariantInferenceAmiVersion").enum)
    assert set(HOST_IMAGES) == {name for name in known if "neuron" not in name}
    assert set(HOST_IMAGES) == set(InferenceAmi.__args__)  # type: ignore[attr-defined]


def test_drivers_match_the_sagemaker_documentation():
    model = botocore.session.get_session().get_service_model("sagemaker")
    text = model.shape_for("ProductionVariant").members["InferenceAmiVersion"].documentation
    for image in HOST_IMAGES.values():
        described = text.partition(f"{image.name}</")[2]
        assert f"NVIDIA driver version: {image.driver}" in described.partition("CUDA version")[0]
        assert f"CUDA version: {image.cuda}" in described.partition("</ul>")[0]


@pytest.mark.parametrize(
    ("instance", "release", "ami"),
    [
        ("ml.c7i.xlarge", "26.03", None),
        ("ml.g4dn.xlarge", "25.04", None),
        ("ml.g4dn.xlarge", "25.09", GPU_4_1),
        ("ml.g5.xlarge", "24.09", None),
        ("ml.g5.xlarge", "26.03", GPU_4_1),
        ("ml.g6.xlarge", "25.04", None),
        ("ml.g6.xlarge", "25.09", GPU_4_1),
        ("ml.g6.xlarge", "26.04", GPU_4_1),
        ("ml.g4dn.xlarge", "26.05", GPU_4_1),
        ("ml.p4d.24xlarge", "26.05", GPU_4_1),
        # AWS does not say which driver it has.
        ("ml.g6e.xlarge", "24.09", GPU_4_1),
        # 550 may work with CUDA 13, but AWS does not promise it.
        ("ml.p5en.48xlarge", "25.09", GPU_4_1),
        ("ml.p5en.48xlarge", "25.04", None),
        ("ml.p6-b200.48xlarge", "25.04", GPU_4_1),
    ],
)
def test_chosen_host_image(instance, release, ami):
    assert chosen_ami(INSTANCE_TYPES[instance], RELEASES[release]) == ami


def runs(instance: InstanceType, release: TritonRelease) -> bool:
    capability = instance.family.compute_capability
    return bool(capability) and float(capability or 0) >= float(release.min_compute_capability)


@pytest.mark.parametrize("release", RELEASES)
def test_chosen_host_image_is_always_compatible(release):
    chosen = {
        instance.name: ami_violation(ami, instance, RELEASES[release])
        for instance in INSTANCE_TYPES.values()
        if runs(instance, RELEASES[release]) and (ami := chosen_ami(instance, RELEASES[release]))
    }
    assert chosen
    assert {name: violation for name, violation in chosen.items() if violation} == {}


@pytest.mark.parametrize(
    ("ami", "instance", "release", "words"),
    [
        (GPU_2, "ml.g5.xlarge", "25.04", None),
        (GPU_2_1, "ml.g5.xlarge", "25.09", "535 13.0.1 25.09"),
        (GPU_3_1, "ml.g5.xlarge", "25.09", None),
        (GPU_4_1, "ml.g5.xlarge", "26.03", None),
        (GPU_2, "ml.p2.xlarge", "24.09", "535 K80 470"),
        (GPU_3_1, "ml.p6-b200.48xlarge", "25.04", "550 B200 570"),
        (GPU_4_1, "ml.c7i.large", "25.04", "ml.c7i.large GPU"),
    ],
)
def test_host_image_named_in_a_file(ami, instance, release, words):
    violation = ami_violation(ami, INSTANCE_TYPES[instance], RELEASES[release])
    assert (violation is None) is (words is None)
    assert violation is None or all(word in violation[0] for word in (ami, *words.split()))


@pytest.mark.parametrize("release", RELEASES)
def test_newest_host_image_runs_every_release_on_every_supported_gpu(release):
    violations = {
        instance.name: ami_violation(NEWEST.name, instance, RELEASES[release])
        for instance in INSTANCE_TYPES.values()
        if runs(instance, RELEASES[release])
    }
    assert violations
    assert {name: violation for name, violation in violations.items() if violation} == {}


@pytest.mark.parametrize(
    ("instance", "release", "fits"),
    [
        ("ml.g7e.2xlarge", "24.09", False),
        ("ml.g7e.2xlarge", "25.04", True),
        ("ml.p6-b300.48xlarge", "25.04", True),
        ("ml.p5.48xlarge", "23.12", True),
        ("ml.c7i.large", "23.12", True),
    ],
)
def test_gpu_needs_a_cuda_version_that_supports_it(instance, release, fits):
    assert (cuda_violation(INSTANCE_TYPES[instance], RELEASES[release]) is None) == fits
