"""Builds of one model wait for each other and say so; builds of different models run in parallel."""

import threading

from model_build.store.artifacts import ArtifactStore


def test_a_second_build_of_the_same_model_waits_with_a_message(tmp_path):
    store = ArtifactStore(artifacts_dir=tmp_path, model="m")
    waiting, order = threading.Event(), []

    def second() -> None:
        with store.exclusive(on_wait=waiting.set) as work:
            order.append("second")
            assert list(work.iterdir()) == []

    thread = threading.Thread(target=second)
    with store.exclusive() as work:
        (work / "half").touch()
        thread.start()
        assert waiting.wait(30)
        order.append("first")
    thread.join(30)
    assert order == ["first", "second"]


def test_builds_of_different_models_do_not_wait(tmp_path):
    waits: list[str] = []
    with (
        ArtifactStore(artifacts_dir=tmp_path, model="a").exclusive() as first,
        ArtifactStore(artifacts_dir=tmp_path, model="b").exclusive(
            on_wait=lambda: waits.append("b")
        ) as other,
    ):
        assert first != other
    assert waits == []
