"""Images of the local cloud's environments: promotion tags the same image of this machine's engine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from docker.errors import ImageNotFound

from tritonstack.workflows.artifacts import local_images
from tritonstack.workflows.artifacts.local_images import ImageNotBuiltError, held_digest, tag_image

DIGEST = f"sha256:{'ab' * 32}"
DEV, PROD = (
    "1.dkr.ecr.us-east-1.amazonaws.com/dev/serving:v1",
    "2.dkr.ecr.us-east-1.amazonaws.com/prod/serving:v1",
)


class Engine:
    """A Docker engine's list of images."""

    def __init__(self) -> None:
        self.names = {DEV: DIGEST}
        self.images = self

    def get(self, name: str) -> SimpleNamespace:
        digest = name if name in self.names.values() else self.names.get(name)
        if digest is None:
            raise ImageNotFound(name)

        def tag(repository: str, *, tag: str) -> None:
            self.names[f"{repository}:{tag}"] = digest

        tags = [other for other, held in self.names.items() if held == digest]
        return SimpleNamespace(id=digest, tags=tags, tag=tag)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine()
    monkeypatch.setattr(local_images, "docker_engine", lambda: engine)
    return engine


def test_an_image_gets_its_name_in_the_other_environment(engine: Engine) -> None:
    assert (held_digest(DEV), held_digest(PROD)) == (DIGEST, None)
    tag_image(DIGEST, PROD)
    assert held_digest(PROD) == DIGEST
    assert engine.names[DEV] == DIGEST


@pytest.mark.usefixtures("engine")
def test_an_image_that_another_machine_holds() -> None:
    with pytest.raises(ImageNotBuiltError, match="cannot tag it v1"):
        tag_image(f"sha256:{'cd' * 32}", PROD)
