"""Copy images between accounts, layer by layer, by digest."""

import hashlib
import json
import urllib.request
import uuid

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.conftest import Account
from tritonstack_local.ecr_layers import LEAST_PART_SIZE

KIND = "application/vnd.docker.distribution.manifest.v2+json"


@pytest.fixture
def ecr(account):
    client = account.client("ecr")
    client.create_repository(repositoryName="serving")
    return client


def digest_of(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def push_layer(ecr, *parts, repository="serving", digest=None):
    digest = digest or digest_of(b"".join(parts))
    upload = ecr.initiate_layer_upload(repositoryName=repository)["uploadId"]
    first = 0
    for part in parts:
        taken = ecr.upload_layer_part(
            repositoryName=repository,
            uploadId=upload,
            partFirstByte=first,
            partLastByte=first + len(part) - 1,
            layerPartBlob=part,
        )
        first += len(part)
        assert taken["lastByteReceived"] == first - 1
    done = ecr.complete_layer_upload(repositoryName=repository, uploadId=upload, layerDigests=[digest])
    assert done["layerDigest"] == digest
    return digest


def manifest_of(*layers):
    described = [{"mediaType": "l", "size": 1, "digest": digest} for digest in layers]
    config = {"mediaType": "c", "size": 1, "digest": digest_of(b"config")}
    return json.dumps({"schemaVersion": 2, "mediaType": KIND, "config": config, "layers": described})


def code_of(action):
    with pytest.raises(ClientError) as caught:
        action()
    return caught.value.response["Error"]["Code"]


def content_of(ecr, digest):
    link = ecr.get_download_url_for_layer(repositoryName="serving", layerDigest=digest)["downloadUrl"]
    with urllib.request.urlopen(link) as answer:
        return answer.read()


def test_an_image_is_copied_to_another_account_by_its_digest(account, ecr):
    big = [b"a" * LEAST_PART_SIZE, b"b" * 100]
    layers = [push_layer(ecr, *big), push_layer(ecr, b"config")]
    manifest = manifest_of(*layers)
    pushed = ecr.put_image(repositoryName="serving", imageManifest=manifest, imageTag="one")["image"]
    digest = pushed["imageId"]["imageDigest"]
    assert digest == digest_of(manifest.encode())

    there = Account(account.endpoint_url).client("ecr")
    there.create_repository(repositoryName="serving")
    asked = there.batch_check_layer_availability(repositoryName="serving", layerDigests=layers)
    assert [layer["layerAvailability"] for layer in asked["layers"]] == ["UNAVAILABLE"] * 2
    copied = {"repositoryName": "serving", "imageManifest": manifest, "imageDigest": digest}
    assert code_of(lambda: there.put_image(**copied)) == "LayersNotFoundException"
    for layer in layers:
        content = content_of(ecr, layer)
        assert digest_of(content) == layer
        push_layer(there, content)
    there.put_image(**copied)
    held = there.batch_get_image(repositoryName="serving", imageIds=[{"imageDigest": digest}])["images"]
    assert [image["imageManifest"] for image in held] == [manifest]
    asked = there.batch_check_layer_availability(repositoryName="serving", layerDigests=layers)
    assert [layer["layerSize"] for layer in asked["layers"]] == [LEAST_PART_SIZE + 100, 6]


def test_a_manifest_must_match_its_digest(ecr):
    asked = {"repositoryName": "serving", "imageManifest": manifest_of(), "imageTag": "one"}
    wrong = digest_of(b"something else")
    assert code_of(lambda: ecr.put_image(**asked, imageDigest=wrong)) == "ImageDigestDoesNotMatchException"


@pytest.mark.parametrize("manifest", [" ", "{", "[]", '{"layers": [1]}', "[" * 100_000])
def test_what_is_no_manifest_is_rejected(ecr, manifest):
    asked = {"repositoryName": "serving", "imageTag": "one"}
    assert code_of(lambda: ecr.put_image(**asked, imageManifest=manifest)) == "InvalidParameterException"


def test_incomplete_layers_are_rejected(ecr):
    assert code_of(lambda: push_layer(ecr)) == "EmptyUploadException"
    assert code_of(lambda: push_layer(ecr, b"small", b"last")) == "LayerPartTooSmallException"
    assert code_of(lambda: push_layer(ecr, b"x", digest=digest_of(b"y"))) == "InvalidLayerException"
    digest = push_layer(ecr, b"x")
    assert code_of(lambda: push_layer(ecr, b"x")) == "LayerAlreadyExistsException"
    upload = ecr.initiate_layer_upload(repositoryName="serving")["uploadId"]
    part = {"repositoryName": "serving", "uploadId": upload, "layerPartBlob": b"x"}
    gap = code_of(lambda: ecr.upload_layer_part(**part, partFirstByte=1, partLastByte=1))
    assert gap == "InvalidLayerPartException"
    lost = {"repositoryName": "serving", "uploadId": str(uuid.UUID(int=0)), "layerDigests": [digest]}
    assert code_of(lambda: ecr.complete_layer_upload(**lost)) == "UploadNotFoundException"
    missing = {"repositoryName": "serving", "layerDigest": digest_of(b"never")}
    assert code_of(lambda: ecr.get_download_url_for_layer(**missing)) == "LayersNotFoundException"
    nowhere = {"repositoryName": "none", "layerDigests": [digest]}
    assert code_of(lambda: ecr.batch_check_layer_availability(**nowhere)) == "RepositoryNotFoundException"


def test_a_recreated_repository_has_no_layers(account, ecr):
    digest = push_layer(ecr, b"x")
    ecr.delete_repository(repositoryName="serving", force=True)
    ecr.create_repository(repositoryName="serving")
    asked = ecr.batch_check_layer_availability(repositoryName="serving", layerDigests=[digest, "sha256:1"])
    assert [layer["layerAvailability"] for layer in asked["layers"]] == ["UNAVAILABLE"]
    assert [failure["failureCode"] for failure in asked["failures"]] == ["InvalidLayerDigest"]
    assert push_layer(ecr, b"x") == digest
