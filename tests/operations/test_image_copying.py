"""Images from one ECR registry to another, layer by layer and by digest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from operations.promotion.image_copying import ImageCopyError, Registry, copy_image, image_bytes
from tests.operations.strict_ecr import StrictEcr, digest_of, served

LAYERS = (b"the system", b"a library of 30 bytes, as it is")


@pytest.fixture
def dev() -> Iterator[StrictEcr]:
    with served(StrictEcr("1" * 12, "tritonstack-dev/serving")) as registry:
        yield registry


@pytest.fixture
def prod() -> StrictEcr:
    return StrictEcr("2" * 12, "tritonstack-prod/serving")


def registry(ecr: StrictEcr) -> Registry:
    return Registry(ecr, ecr.repository)  # type: ignore[arg-type]


def copy(dev: StrictEcr, prod: StrictEcr, digest: str, *, tag: str = "v1") -> int | None:
    """What was sent; None if nothing had to be done."""
    sent: list[int] = []
    done = copy_image(registry(dev), registry(prod), digest=digest, tag=tag, on_bytes=sent.append)
    return sum(sent) if done else None


def test_an_image_keeps_its_digest(dev: StrictEcr, prod: StrictEcr) -> None:
    digest = dev.push(*LAYERS)
    expected = image_bytes(registry(dev), registry(prod), digest)
    assert copy(dev, prod, digest) == expected == sum(map(len, dev.layers.values()))
    assert prod.tags == {"v1": digest}
    assert prod.manifests == dev.manifests
    assert prod.layers == dev.layers
    assert copy(dev, prod, digest) is None


def test_layers_that_are_there_are_not_sent_again(dev: StrictEcr, prod: StrictEcr) -> None:
    digest = dev.push(*LAYERS)
    prod.layers[digest_of(LAYERS[1])] = LAYERS[1]
    sent = copy(dev, prod, digest)
    assert sent == sum(map(len, dev.layers.values())) - len(LAYERS[1])


def test_a_list_of_images_comes_with_its_members(dev: StrictEcr, prod: StrictEcr) -> None:
    members = [dev.push(LAYERS[0]), dev.push(LAYERS[1])]
    digest = dev.push_index(*members)
    copy(dev, prod, digest)
    assert prod.tags == {"v1": digest}
    assert set(prod.manifests) == {*members, digest}


def test_layers_that_stay_elsewhere_are_left_there(dev: StrictEcr, prod: StrictEcr) -> None:
    dev.push(*LAYERS)
    config = {"digest": digest_of(LAYERS[0]), "size": len(LAYERS[0])}
    foreign = {"digest": digest_of(b"foreign"), "size": 7, "urls": ["https://example.com/foreign"]}
    digest = dev.push_manifest(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config,
            "layers": [foreign],
        }
    )
    assert copy(dev, prod, digest) == len(LAYERS[0])


def test_a_second_tag_of_the_same_image(dev: StrictEcr, prod: StrictEcr) -> None:
    digest = dev.push(*LAYERS)
    copy(dev, prod, digest)
    assert copy(dev, prod, digest, tag="v2") == 0
    assert prod.tags == {"v1": digest, "v2": digest}


def test_a_tag_that_means_another_image_is_left_alone(dev: StrictEcr, prod: StrictEcr) -> None:
    other = prod.push(b"pushed by hand")
    prod.tags["v1"] = other
    with pytest.raises(ImageCopyError, match="v1 is another image already"):
        copy(dev, prod, dev.push(*LAYERS))
    assert prod.tags == {"v1": other}


def test_a_damaged_layer_is_stopped(dev: StrictEcr, prod: StrictEcr) -> None:
    digest = dev.push(*LAYERS)
    dev.layers[digest_of(LAYERS[1])] = b"something else"
    with pytest.raises(ImageCopyError, match="a bad image is stopped"):
        copy(dev, prod, digest)
    assert prod.tags == {}
    assert digest_of(LAYERS[1]) not in prod.layers


def test_a_manifest_that_is_not_its_digest_is_stopped(dev: StrictEcr, prod: StrictEcr) -> None:
    digest = dev.push(*LAYERS)
    media_type, text = dev.manifests[digest]
    dev.manifests[digest] = (media_type, text + " ")
    with pytest.raises(ImageCopyError, match="has a manifest whose digest is"):
        copy(dev, prod, digest)
    assert prod.layers == {}


def test_an_image_that_is_not_there(dev: StrictEcr, prod: StrictEcr) -> None:
    with pytest.raises(ImageCopyError, match="Requested image not found"):
        copy(dev, prod, digest_of("nothing"))


@pytest.mark.parametrize("operation", ["upload_layer_part", "complete_layer_upload", "put_image"])
def test_a_copy_that_broke_off_is_gone_on_with(
    dev: StrictEcr, prod: StrictEcr, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
