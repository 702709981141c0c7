"""Multi-model mode: load, list, invoke, and unload models, with and without the target header."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract import models
from tests.contract.bodies import answered, numbers, output, said
from tests.contract.drivers import TARGET_HEADER, MultiModel
from tests.contract.wire import ask_afresh

pytestmark = [pytest.mark.e2e, pytest.mark.own_server]


def load_one(many: MultiModel, name: str, target: str | None) -> None:
    many.lay(name, models.single)
    answer = many.load(name, target)
    assert answer.status == 200, answer.body


def slow(folder: Path) -> None:
    models.write_model(folder / "slow", code=models.SLOW_CODE)


def test_a_model_is_named_after_the_target_header_or_its_hash(many):
    load_one(many, "life1", "team/life.tar.gz")
    answer = many.invoke("life1", "team/life.tar.gz", numbers(1))
    assert answered(answer)["model_name"] == "team/life.tar.gz"
    load_one(many, "life2", None)
    assert answered(many.invoke("life2", None, numbers(1)))["model_name"] == "life2"
    assert output(many.invoke("life2", "life2", numbers(1)))["data"] == [2]


def test_models_are_described_and_listed(many):
    """The list has an entry for each model, an empty one where it was loaded with the header."""
    url = f"{many.server.seen_at}/listed1/model"
    before = many.listed()
    load_one(many, "listed1", None)
    load_one(many, "listed2", "listed.tar.gz")
    described = many.described("listed1")
    assert described.status == 200
    assert described.body.decode() == f'{{"modelName":"listed1","modelUrl":"{url}"}}'
    assert many.described("listed2").status == 200
    new = [entry for entry in many.listed() if entry not in before or entry == {}]
    assert {"modelName": "listed1", "modelUrl": url} in new
    assert new.count({}) == before.count({}) + 1
    assert many.unload("listed1", None).status == 200
    assert many.unload("listed2", "listed.tar.gz").status == 200
    assert many.listed() == before


def test_url_of_a_flat_model_is_its_parent_folder(many):
    many.lay("flat", models.write_model)
    assert many.load("flat", None).status == 200
    assert many.described("flat").body.decode().endswith(f'"{many.server.seen_at}/flat"}}')


def test_unloaded_model_is_unknown_and_can_be_loaded_again(many):
    load_one(many, "again", "again.tar.gz")
    assert many.unload("again", "again.tar.gz").status == 200
    assert many.described("again").status == 404
    assert many.invoke("again", "again.tar.gz", numbers(1)).status == 404
    assert many.unload("again", "again.tar.gz").status == 404
    assert many.load("again", "again.tar.gz").status == 200
    assert output(many.invoke("again", "again.tar.gz", numbers(1)))["data"] == [2]


def test_ensemble_contains_its_parts_under_private_names(many):
    """Two archives with inner models of the same names do not meet."""
    for name in ("parts1", "parts2"):
        many.lay(name, models.ensemble)
        assert many.load(name, f"{name}.tar.gz").status == 200
    assert output(many.invoke("parts1", "parts1.tar.gz", numbers(1)))["data"] == [6]
    assert many.unload("parts1", "parts1.tar.gz").status == 200
    assert output(many.invoke("parts2", "parts2.tar.gz", numbers(1)))["data"] == [6]


def test_duplicate_load(many):
    load_one(many, "twice", "twice.tar.gz")
    for target in ("twice.tar.gz", "other.tar.gz", None):
        again = many.load("twice", target)
        assert again.status == 409
        assert "already been registered" in said(again)
    assert output(many.invoke("twice", "twice.tar.gz", numbers(1)))["data"] == [2]


def test_the_same_target_under_another_hash(many):
    many.lay("double2", models.single)
    load_one(many, "double1", "doubled.tar.gz")
    again = many.load("double2", "doubled.tar.gz")
    assert again.status == 409
    assert "conflicting mapping" in said(again)
    assert many.invoke("double2", "doubled.tar.gz", numbers(1)).status == 404


def test_unknown_hashes_and_a_missing_archive(many):
    assert many.invoke("nobody", "nobody.tar.gz", numbers(1)).status == 404
    assert many.described("nobody").status == 404
    assert many.unload("nobody", "nobody.tar.gz").status == 404
    answer = many.load("absent", "absent.tar.gz")
    assert answer.status == 400
    assert "repository not found" in said(answer)


@pytest.mark.parametrize("target", ["unheard.tar.gz", None])
def test_loaded_hash_with_a_target_that_is_not_loaded(many, target):
    name = f"header{target}"
    load_one(many, name, f"{name}.tar.gz")
    answer = many.invoke(name, target, numbers(1))
    assert answer.status == 400
    assert f"unknown model: '{target or name}'" in said(answer)


def test_target_of_another_loaded_model_answers(many):
    """The hash in the path decides nothing but whether there is such a model."""
    many.lay("header3", models.ensemble)
    load_one(many, "header2", "two.tar.gz")
    assert many.load("header3", "three.tar.gz").status == 200
    assert output(many.invoke("header2", "three.tar.gz", numbers(1)))["data"] == [6]
    assert output(many.invoke("header3", "two.tar.gz", numbers(1)))["data"] == [2]


def test_out_of_memory_at_load_returns_507(many):
    many.lay("hungry", lambda folder: models.write_model(folder / "m", code=models.OUT_OF_MEMORY_CODE))
    answer = many.load("hungry", "hungry.tar.gz")
    assert answer.status == 507
    assert "out of memory" in said(answer)
    assert many.described("hungry").status == 404


def test_a_fixed_model_in_the_same_folder_is_loaded_and_answers(many):
    many.lay("mended", lambda folder: models.write_model(folder / "m", code=models.BROKEN_CODE))
    assert many.load("mended", "mended.tar.gz").status == 400
    mend(many, "mended")
    assert many.load("mended", "mended.tar.gz").status == 200
    assert output(many.invoke("mended", "mended.tar.gz", numbers(1)))["data"] == [2]


def mend(many: MultiModel, name: str) -> None:
    (many.server.models / name / "model/m/1/model.py").write_text(models.DOUBLE_CODE)


@pytest.mark.before("26.06")
def test_a_fixed_model_in_another_folder_loads_but_cannot_be_invoked(many):
    """A target that failed once is bound to its first folder: keep the hash of a target the same."""
    many.lay("failed", lambda folder: models.write_model(folder / "m", code=models.BROKEN_CODE))
    assert many.load("failed", "moved.tar.gz").status == 400
    many.lay("moved", models.single)
    assert many.load("moved", "moved.tar.gz").status == 200
    answer = many.invoke("moved", "moved.tar.gz", numbers(1))
    assert answer.status == 400
    assert "2 identifiers of model" in said(answer)


def test_ping_while_a_model_loads(many):
    """It is unknown, and taken; other models answer."""
    many.lay("slow", slow)
    load_one(many, "quick", "quick.tar.gz")
    order = json.dumps({"model_name": "slow", "url": f"{many.server.seen_at}/slow/model"}).encode()
    meanwhile = [
        ("POST", "/models", "slow.tar.gz", order, 409),
        ("GET", "/models/slow", "slow.tar.gz", b"", 404),
        ("POST", "/models/slow/invoke", "slow.tar.gz", numbers(1), 404),
        ("POST", "/models/quick/invoke", "quick.tar.gz", numbers(1), 200),
    ]
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(many.load, "slow", "slow.tar.gz")
        time.sleep(models.LOAD_S / 8)
        for method, path, target, body, code in meanwhile:
            answer = None
            while answer is None:
                answer = ask_afresh(many.server, method, path, body=body, headers={TARGET_HEADER: target})
                assert not load.done(), "no answer came meanwhile"
            assert answer.status == code
        assert load.result().status == 200
    assert output(many.invoke("slow", "slow.tar.gz", numbers(1)))["data"] == [2]


def test_one_of_many_concurrent_loads_succeeds(many):
    many.lay("race", models.single)
    with ThreadPoolExecutor(8) as pool:
        codes = [answer.status for answer in pool.map(lambda _: many.load("race", "race.tar.gz"), range(8))]
    assert sorted(codes) == [200] + [409] * 7
    assert output(many.invoke("race", "race.tar.gz", numbers(1)))["data"] == [2]


def test_unloading_one_while_another_works(many):
    load_one(many, "busy", "busy.tar.gz")
    load_one(many, "idle", "idle.tar.gz")
    answers: list[object] = []
    working = threading.Thread(
        target=lambda: answers.append(
            output(many.invoke("busy", "busy.tar.gz", numbers(models.SLEEPS)))["data"]
        )
    )
    working.start()
    assert many.unload("idle", "idle.tar.gz").status == 200
    working.join()
    assert answers == [[2 * models.SLEEPS]]


@pytest.mark.parametrize("body", [b"", b"{}", b'{"model_name": "nobody"}', b"[1]"])
def test_orders_without_a_folder(many, body):
    answer = many.server.request("POST", "/models", body=body, headers={TARGET_HEADER: "t"})
    assert answer.status == 400
    assert many.ping() == 200


@pytest.mark.parametrize("url", ["/elsewhere/model", "/dev/shm"])  # noqa: S108
def test_folder_outside_the_models(many, url):
    assert many.load("outside", "outside.tar.gz", url=url).status == 400
