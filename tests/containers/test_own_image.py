"""An endpoint with `image: serving`: built, locked by digest, deployed, and invoked."""

import shutil
from collections.abc import Iterator

import docker
import pytest

from tests.e2e.conftest import REPOSITORY, Site, furnished_site
from tests.projects import edit
from tritonstack.facts.images import image_uri
from tritonstack.files.loading import load_workspace
from tritonstack.files.project.custom_images import endpoint_image

pytestmark = pytest.mark.soak


@pytest.fixture
def site(
    engine: docker.DockerClient, base_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("site")
    for name in ("models", "environments", "containers"):
        shutil.copytree(REPOSITORY.root / name, root / name)
    site = furnished_site(root, shared=("server", "artifacts"))
    edit(
        site.project.environment_file("local"),
        "    kind: ensemble\n",
        "    kind: ensemble\n    image: serving\n",
    )
    spec = site.spec
    base = image_uri(region=spec.region, release=spec.triton_release, gpu=False)
    own = endpoint_image(site.project, spec, "serving", gpu=False).uri
    engine.images.get(base_image).tag(base)  # the stand-in, where SageMaker's own would be pulled
    yield site
    site.tritonstack("down")
    for name in (own, base):
        if engine.images.list(name):
            engine.images.remove(name)


def test_image_of_the_lock_runs(site, engine):
    site.tritonstack("up", "--detach", "--containers", "--expose")
    output = site.tritonstack("deploy", "local", exit_code=2)
    assert "local.lock.yaml" in output
    assert "tritonstack build local" in output

    site.tritonstack("build", "local", "--no-publish")
    locked = load_workspace(site.project, "local").lock.record.images["serving"]["cpu"]
    own = endpoint_image(site.project, site.spec, "serving", gpu=False)
    assert engine.images.get(own.uri).id == locked.digest
    assert locked.tag == own.tag

    site.cdk("bootstrap", "aws://000000000000/us-east-1")
    site.tritonstack("deploy", "local")
    sagemaker, name = site.cloud.client("sagemaker"), site.spec.endpoint_name("minilm")
    config = sagemaker.describe_endpoint(EndpointName=name)["EndpointConfigName"]
    (variant,) = sagemaker.describe_endpoint_config(EndpointConfigName=config)["ProductionVariants"]
    model = sagemaker.describe_model(ModelName=variant["ModelName"])
    assert model["PrimaryContainer"]["Image"] == f"{own.uri.rpartition(':')[0]}@{locked.digest}"
    site.tritonstack("invoke", "local", "minilm", "A man is eating food.")
    label = f"tritonstack.cloud={site.project.cloud_dir().resolve()}"
    (container,) = engine.containers.list(filters={"label": label})
    assert container.image.id == locked.digest

    dockerfile = site.project.root / "containers/serving/Dockerfile"
    edit(dockerfile, "COPY", "ENV OWN=1\nCOPY")
    output = site.tritonstack("deploy", "local", exit_code=2)
    assert "containers/serving" in output
