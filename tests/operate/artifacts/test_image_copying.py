"""Copy images between ECR registries, layer by layer and by digest."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.operate.artifacts.strict_ecr import OCI, Break, StrictEcr, digest_of, served
from tests.operate.strict_aws import client_error
from tritonstack.base.error_kinds import CopyError
from tritonstack.operate.artifacts.image_copying import Registry, copy_image, image_bytes

LAYERS = (b"the system", b"a library of 30 bytes, as it is")


@pytest.fixture
def dev():
    with served(StrictEcr("1" * 12, "tritonstack-dev/serving")) as registry:
        yield registry


@pytest.fixture
def prod():
    return StrictEcr("2" * 12, "tritonstack-prod/serving")


def registry(ecr: StrictEcr) -> Registry:
    return Registry(ecr, ecr.repository)  # type: ignore[arg-type]


def copy(
    dev: StrictEcr, prod: StrictEcr, digest: str, *, tag: str = "v1", slept: list[float] | None = None
) -> int | None:
    """Return what was sent; None if nothing was needed."""
    sent: list[int] = []
    done = copy_image(
        registry(dev),
        registry(prod),
        digest=digest,
        tag=tag,
        on_bytes=sent.append,
        sleep=([] if slept is None else slept).append,
    )
    return sum(sent) if done else None


def test_an_image_keeps_its_digest(dev, prod):
    digest = dev.push(*LAYERS)
    expected = image_bytes(registry(dev), registry(prod), digest)
    assert copy(dev, prod, digest) == expected == sum(map(len, dev.layers.values()))
    assert prod.tags == {"v1": digest}
    assert prod.manifests == dev.manifests
    assert prod.layers == dev.layers
    assert copy(dev, prod, digest) is None


def test_only_missing_layers_are_copied(dev, prod):
    digest = dev.push(*LAYERS)
    prod.layers[digest_of(LAYERS[1])] = LAYERS[1]
    assert copy(dev, prod, digest) == sum(map(len, dev.layers.values())) - len(LAYERS[1])
    # A foreign layer has a URL.
    config = {"digest": digest_of(LAYERS[0]), "size": len(LAYERS[0])}
    foreign = {"digest": digest_of(b"foreign"), "size": 7, "urls": ["https://example.com/foreign"]}
    digest = dev.push_manifest({"schemaVersion": 2, "mediaType": OCI, "config": config, "layers": [foreign]})
    assert copy(dev, prod, digest, tag="v2") == 0


def test_an_image_index_is_copied_with_its_images(dev, prod):
    members = [dev.push(LAYERS[0]), dev.push(LAYERS[1])]
    digest = dev.push_index(*members)
    copy(dev, prod, digest)
    assert prod.tags == {"v1": digest}
    assert set(prod.manifests) == {*members, digest}


def test_a_tag_of_another_image_is_not_moved(dev, prod):
    other = prod.push(b"pushed by hand")
    prod.tags["v1"] = other
    with pytest.raises(CopyError, match="v1 already exists"):
        copy(dev, prod, dev.push(*LAYERS))
    assert prod.tags == {"v1": other}


@pytest.mark.parametrize(
    ("instead", "why"),
    [
        (LAYERS[1][::-1], "got sha256:"),
        (b"something else", "got 14 bytes, manifest expects 31"),
        (LAYERS[1] + b"!", "got 32 bytes, manifest expects 31"),
    ],
)
def test_damaged_layer_is_rejected(dev, prod, instead, why):
    digest = dev.push(*LAYERS)
    dev.layers[digest_of(LAYERS[1])] = instead
    with pytest.raises(CopyError, match=f"damaged layer .* {why}"):
        copy(dev, prod, digest)
    assert prod.tags == {}
    assert digest_of(LAYERS[1]) not in prod.layers


@pytest.mark.parametrize("reset", [False, True])
def test_an_interrupted_download_resumes_at_its_offset(dev, prod, reset):
    """Half of a part has arrived by then, and each time there is a new link."""
    digest, slept = dev.push(LAYERS[1]), list[float]()
    dev.breaks = [Break(), Break(after=10, reset=reset), Break(after=0, reset=reset), Break(after=8)]
    assert copy(dev, prod, digest, slept=slept) == sum(map(len, dev.layers.values()))
    assert prod.layers == dev.layers
    assert dev.ranges == [None, None, "bytes=10-", "bytes=10-", "bytes=18-"]
    assert dev.links == []
    assert slept[0] == slept[2] < slept[1]


def test_transfer_that_restarts_skips_the_received_bytes(dev, prod):
    digest = dev.push(LAYERS[1])
    whole = Break(ignores_range=True)
    dev.breaks = [Break(), Break(after=10), Break(after=5, ignores_range=True), whole]
    copy(dev, prod, digest)
    assert prod.layers == dev.layers
    assert dev.ranges[1:] == [None, "bytes=10-", "bytes=10-"]


@pytest.mark.parametrize("operation", ["upload_layer_part", "complete_layer_upload", "put_image"])
def test_a_retried_call_that_had_succeeded_is_accepted(dev, prod, operation, monkeypatch):
    """The AWS SDK retries it, and ECR rejects the second one."""
    digest, real = dev.push(*LAYERS), getattr(prod, operation)

    def twice(**parameters: Any) -> Any:
        real(**parameters)
        return real(**parameters)

    monkeypatch.setattr(prod, operation, twice)
    copy(dev, prod, digest)
    assert prod.tags == {"v1": digest}
    assert prod.layers == dev.layers


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ("upload_layer_part", "InvalidLayerPartException"),
        ("complete_layer_upload", "UploadNotFoundException"),
    ],
)
def test_other_upload_errors_are_reported(dev, prod, operation, code, monkeypatch):
    def reject(**_: Any) -> None:
        raise client_error(operation, code, "not consecutive", lastValidByteReceived=3)

    digest = dev.push(*LAYERS)
    monkeypatch.setattr(prod, operation, reject)
    with pytest.raises(ClientError, match=code):
        copy(dev, prod, digest)


@pytest.mark.parametrize("cause", ["digest mismatch", "Requested image", "403: Request has expired"])
def test_what_cannot_be_read_is_reported(dev, prod, cause):
    digest = dev.push(*LAYERS)
    if cause == "digest mismatch":
        media_type, text = dev.manifests[digest]
        dev.manifests[digest] = (media_type, text + " ")
    elif cause == "Requested image":
        digest = digest_of("nothing")
    else:
        dev.url += "/elsewhere"
    with pytest.raises(CopyError, match=cause):
        copy(dev, prod, digest)
    assert (prod.layers, prod.tags) == ({}, {})


@pytest.mark.parametrize("operation", ["upload_layer_part", "complete_layer_upload", "put_image"])
def test_interrupted_copy_is_resumed(dev, prod, operation, monkeypatch):
    digest = dev.push(*LAYERS)
    real, times = getattr(prod, operation), 0

    def breaks(**parameters: object) -> object:
        nonlocal times
        times += 1
        if times == 2 or operation == "put_image":
            raise ConnectionResetError
        return real(**parameters)

    with monkeypatch.context() as patched:
        patched.setattr(prod, operation, breaks)
        with pytest.raises(ConnectionResetError):
            copy(dev, prod, digest)
    assert prod.tags == {}
    copy(dev, prod, digest)
    assert prod.tags == {"v1": digest}
