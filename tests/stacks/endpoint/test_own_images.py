"""An endpoint with the project's own image: what it runs, may pull, and what builds the image."""

import pytest

from tests.projects import add_image, edit
from tests.stacks.assemblies import lock_everything
from tests.stacks.templates import granted, properties
from tritonstack.files.loading import load_workspace
from tritonstack.files.project.custom_images import endpoint_image
from tritonstack.files.records.lock_writing import add_image_to_lock
from tritonstack.files.records.locks import LockedImage

DIGEST = f"sha256:{'cd' * 32}"
HOME = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/tritonstack-sample"


@pytest.fixture(scope="module")
def own(bare_project, synthesize):
    project = bare_project()
    add_image(project.root, "serving")
    file = project.environment_file("sample")
    edit(file, "    instance_type: ml.g5.xlarge\n", "    instance_type: ml.g5.xlarge\n    image: serving\n")
    workspace = lock_everything(project, "sample")
    image = endpoint_image(project, workspace.spec, "serving", gpu=True)
    add_image_to_lock(workspace.lock.file, "serving", "gpu", LockedImage(digest=DIGEST, tag=image.tag))
    return synthesize(load_workspace(project, "sample")), image


def test_the_endpoint_runs_it_by_its_digest(own):
    template = own[0].endpoint("accelerated")
    model = properties(template, "AWS::SageMaker::Model")
    assert model["PrimaryContainer"]["Image"] == f"{HOME}/serving@{DIGEST}"


def test_the_role_pulls_only_from_that_repository(own):
    template = own[0].endpoint("accelerated")
    repository = "arn:aws:ecr:eu-central-1:123456789012:repository/tritonstack-sample/serving"
    assert granted(template, "ecr:BatchGetImage")["Resource"] == [repository]
