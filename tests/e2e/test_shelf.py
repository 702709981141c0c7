"""Models that are added to a running multi-model endpoint, on the local cloud.

The tests of this file run in order and depend on each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

from tests.e2e.conftest import Site, furnished_site
from tests.model_build.tiny import save_tiny_model, write_model
from tests.projects import edit
from tritonstack.project.loading import load_workspace
from tritonstack.workflows.environments.invoke import find_target

pytestmark = pytest.mark.soak

ENVIRONMENT = """\
name: local
account: "000000000000"
region: us-east-1
triton_release: "25.04"
removal: destroy
endpoints:
  shelf:
    kind: multi-model
    models: [texts]
    instance_type: ml.c7i.xlarge
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A project of two small models, one of texts and one of tokens; the endpoint serves the first."""
    root = tmp_path_factory.mktemp("site")
    here = furnished_site(root, shared=("server",))
    weights = save_tiny_model(root / "weights")
    write_model(root / "models" / "texts", name="texts", source=f"file://{weights}")
    write_model(root / "models" / "tokens", name="tokens", source=f"file://{weights}", takes="tokens")
    (root / "environments").mkdir()
    here.project.environment_file("local").write_text(ENVIRONMENT)
    yield here
    here.tritonstack("down")


def test_first_model_answers(site: Site) -> None:
    site.tritonstack("build", "local", "--no-publish")
    site.tritonstack("up", "--detach")
    site.tritonstack("deploy", "local", "--bootstrap")
    answer = json.loads(site.run("tritonstack", "--json", "invoke", "local", "shelf", "two men"))
    assert np.shape(answer["outputs"]["embedding"]) == (1, 32)


def test_diff_shows_a_new_model_without_a_stack_change(site: Site) -> None:
    edit(site.project.environment_file("local"), "models: [texts]", "models: [texts, tokens]")
    site.tritonstack("build", "local", "--no-publish")
    output = site.tritonstack("diff", "local")
    assert "tritonstack-local-endpoint-shelf: nothing changes" in output
    assert "shelf: 1 model is copied to its model prefix; the stack does not change: tokens" in output


def test_build_publishes_the_model_and_it_answers(site: Site) -> None:
    """Publishing is enough: no deploy is needed."""
    output = site.tritonstack("build", "local")
    assert "1 of 2 missing" in output
    tokens = find_target(load_workspace(site.project, "local"), "shelf", model="tokens")
    ids = np.array([[2, 9, 3]], dtype=np.int64)
    answer = tokens.client(site.cloud.client("sagemaker-runtime")).infer(
        {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    )
    assert answer["embedding"].shape == (1, 32)


def test_deploy_restores_a_lost_copy(site: Site) -> None:
    s3, bucket = site.cloud.client("s3"), site.spec.artifact_bucket
    prefix = f"endpoints/{site.spec.endpoint_name('shelf')}/tokens/"
    [lost] = s3.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
    s3.delete_object(Bucket=bucket, Key=lost["Key"])
    output = site.tritonstack("deploy", "local")
    assert "shelf: tokens can be invoked now" in output
    assert s3.head_object(Bucket=bucket, Key=lost["Key"])["ContentLength"] == lost["Size"]


def test_several_models_need_an_explicit_name(site: Site) -> None:
    output = site.tritonstack("invoke", "local", "shelf", "two men", exit_code=2)
    assert "select one, for example --model texts" in output
    output = site.tritonstack("invoke", "local", "shelf", "two men", "--model", "tokens", exit_code=2)
    assert "the model 'tokens' does not accept texts" in output
    site.tritonstack("invoke", "local", "shelf", "two men", "--model", "texts")


def test_destroy_deletes_the_model_prefix(site: Site) -> None:
    site.tritonstack("destroy", "local", "--yes")
    assert [item for item in site.inventory() if site.spec.base in json.dumps(item)] == []
