"""Models that are added to a running multi-model endpoint, on the local cloud.

The tests of this file run in order and depend on each other.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.e2e.conftest import Site, tiny_site
from tests.e2e.snippets import outputs_of, run_snippet
from tests.model_build.tiny import write_model_file
from tests.model_build.tiny_tasks import LABELS, save_image_model
from tests.projects import edit
from tritonstack.client import EndpointClient, ModelNames, TargetNotFoundError, UnknownModelError
from tritonstack.files.loading import load_workspace
from tritonstack.operate.invoke.invocation_targets import find_target

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
    here = tiny_site(root, ENVIRONMENT, texts="text", tokens="tokens")
    pixels = save_image_model(root / "pixels")
    Image.new("RGB", (40, 30), (200, 30, 30)).save(root / "red.png")
    pictures = write_model_file(
        root / "models" / "pictures",
        recipe="kind: image-classification",
        source=pixels,
        tests=["image: red.png"],
    )
    edit(pictures, "name: tiny", "name: pictures")
    shutil.copy(root / "red.png", pictures.parent)
    yield here
    here.tritonstack("down")


def test_first_model_answers(site: Site) -> None:
    site.tritonstack("build", "local", "--no-publish")
    site.tritonstack("up", "--detach")
    site.tritonstack("deploy", "local", "--bootstrap")
    answer = site.asked("invoke", "local", "shelf", "two men")
    assert np.shape(answer["outputs"]["embedding"]) == (1, 32)


def test_diff_shows_that_a_new_model_changes_only_the_names(site: Site) -> None:
    edit(site.project.environment_file("local"), "models: [texts]", "models: [texts, tokens, pictures]")
    site.tritonstack("build", "local", "--no-publish")
    output = site.tritonstack("diff", "local")
    assert "rollout" not in output.replace("without a rollout", "")
    assert "shelf: 2 models are copied to its model prefix, without a rollout: pictures, tokens" in output


def test_build_publishes_the_model_and_it_answers(site: Site) -> None:
    """Publishing is enough: no deploy is needed."""
    output = site.tritonstack("build", "local")
    assert "2 of 3 missing" in output
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


def test_models_are_called_by_name(site: Site, tmp_path: Path) -> None:
    path = site.asked("targets", "local")["endpoints"]["shelf"]["path"]
    names = ModelNames.published(path, ssm=site.cloud.client("ssm"))
    assert sorted(names.known()) == ["pictures", "texts", "tokens"]
    client = EndpointClient(
        endpoint_name=site.spec.endpoint_name("shelf"),
        runtime=site.cloud.client("sagemaker-runtime"),
        target_model="texts",
        models=names,
    )
    expected = client.infer({"TEXT": np.array([["two men"]], dtype=object)})["embedding"]
    site.tritonstack("targets", "local", "shelf", "--output", str(tmp_path / "names.json"))
    assert ModelNames.from_file(tmp_path / "names.json").known() == names.known()
    with pytest.raises(UnknownModelError, match="no model 'text' is published"):
        client.with_model("text").infer({"TEXT": np.array([["two men"]], dtype=object)})
    with pytest.raises(TargetNotFoundError, match="Failed to download model data") as caught:
        client.with_model("texts/0123/model.tar.gz").infer({"TEXT": np.array([["two men"]], dtype=object)})
    assert caught.value.remedy == "did you mean 'texts'? known models: pictures, texts, tokens"
    file = tmp_path / "answer.npz"
    site.tritonstack(
        "invoke", "local", "shelf", "--model", "texts", "--input", "TEXT=two men", "--save", str(file)
    )
    np.testing.assert_allclose(np.load(file)["embedding"], expected, atol=1e-6)


def test_a_picture_gets_labels(site: Site) -> None:
    picture = f"IMAGE=@{site.project.root / 'red.png'}"
    asked = ("invoke", "local", "shelf", "--model", "pictures")
    scores = site.asked(*asked, "--input", picture)["outputs"]["scores"][0]
    best = site.asked(*asked, "--input", picture, "--top", "2")["classes"]["scores"][0]
    assert [one["value"] for one in best] == pytest.approx(sorted(scores, reverse=True)[:2], abs=1e-5)
    assert {one["label"] for one in best} <= set(LABELS.values())
    output = site.tritonstack(*asked, "--input", "IMAG=@red.png", exit_code=2)
    assert "the model 'pictures' has no input 'IMAG'" in output
    assert "did you mean 'IMAGE'? its inputs: IMAGE (BYTES, shape [1])" in output


def test_a_body_that_is_no_text_is_sent_from_a_file(site: Site, tmp_path: Path) -> None:
    body = tmp_path / "request.bin"
    answered = run_snippet(site, tmp_path, "curl", "shelf", "--model", "pictures", "--body", str(body))
    assert np.shape(outputs_of(answered)["scores"]) == (len(LABELS),)


@pytest.mark.parametrize("language", ["curl", "aws-cli", "python", "javascript"])
def test_printed_requests_name_the_model(site: Site, tmp_path: Path, language: str) -> None:
    answered = run_snippet(site, tmp_path, language, "shelf", "--model", "tokens")
    if language == "python":
        answers = "embedding float32 (1, 32)" in answered
    else:
        is_parsed_only = language == "javascript" and not answered
        answers = is_parsed_only or np.shape(outputs_of(answered)["embedding"]) == (32,)
    assert answers


def test_destroy_deletes_the_model_prefix(site: Site) -> None:
    site.tritonstack("destroy", "local", "--yes")
    assert [item for item in site.inventory() if site.spec.base in json.dumps(item)] == []
