"""Archive layouts: which model each mode serves, or why it serves none."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract import models
from tests.contract.bodies import numbers, output, said
from tests.contract.drivers import (
    DEFAULT_MODEL,
    Lay,
    RejectedError,
)

pytestmark = pytest.mark.e2e

DOUBLES, TREBLES, CHAINS = 2.0, 3.0, 6.0
TWO_FOLDERS = "More than 1 model directory found in model repository"


@dataclass(frozen=True)
class Layout:
    """An archive's content and the result: the factor of the served model, or words of the rejection."""

    called: str
    lay: Lay
    single: float | str
    many: float | str | None = None
    """None where the outcome is undefined, because it depends on the order of a directory listing."""
    named: str | None = None
    """The default model's name, for the single mode."""


def both(*lays: Lay) -> Lay:
    def lay(folder: Path) -> None:
        for write in lays:
            write(folder)

    return lay


def inside(name: str, lay: Lay) -> Lay:
    return lambda folder: lay(folder / name)


def stray(folder: Path) -> None:
    (folder / "stray").mkdir()
    (folder / "stray/notes.txt").write_text("no model\n")


def file_beside(folder: Path) -> None:
    (folder / "README.md").write_text("no model\n")


def four_more(folder: Path) -> None:
    for number in range(4):
        models.write_model(folder / f"more_{number}")


def without(path: str) -> Lay:
    def lay(folder: Path) -> None:
        gone = folder / path
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()

    return lay


def renamed(old: str, new: str) -> Lay:
    return lambda folder: (folder / old).rename(folder / new)


def chain(**how: object) -> Lay:
    """The ensemble and its parts, the ensemble written in some way."""
    write: Callable[..., object] = models.write_ensemble
    return both(models.write_parts, lambda folder: write(folder, **how))


def bare_version(folder: Path) -> None:
    models.write_ensemble(folder, version=False)
    (folder / "chain/1").mkdir()


def configured(config: str) -> Lay:
    return lambda folder: models.write_model(folder / "double", config=config)


LAYOUTS = [
    Layout("one model", models.single, DOUBLES, DOUBLES),
    Layout("a file beside the model", both(models.single, file_beside), DOUBLES, DOUBLES),
    Layout("nothing", lambda _: None, "No model found in model repository", "failed to poll"),
    Layout("config at the root", models.write_model, "Incorrect directory structure", DOUBLES),
    Layout("one folder too deep", inside("inner", models.single), "inner/config.pbtxt", "failed to poll"),
    Layout("a deep one by its path", inside("inner", models.single), DOUBLES, "failed", named="inner/double"),
    Layout("a stray folder", both(models.single, stray), TWO_FOLDERS),
    Layout("a stray folder, model named", both(models.single, stray), DOUBLES, named="double"),
    Layout("two models", models.write_parts, TWO_FOLDERS),
    Layout("two models, one named", models.write_parts, TREBLES, named="treble"),
    Layout("a name that is not there", models.single, "absent does not exist", DOUBLES, named="absent"),
    Layout("an ensemble", models.ensemble, CHAINS, CHAINS, named="chain"),
    Layout("an ensemble, unnamed", models.ensemble, TWO_FOLDERS, CHAINS),
    Layout("an ensemble and a stray folder", both(models.ensemble, stray), CHAINS, CHAINS, named="chain"),
    Layout("an ensemble of seven", both(models.ensemble, four_more), CHAINS, CHAINS, named="chain"),
    Layout("an ensemble one too deep", inside("inner", models.ensemble), "config.pbtxt", "failed to poll"),
    Layout(
        "an ensemble without version folder",
        chain(version=False),
        "at least one version must be available",
        "at least one version must be available",
        named="chain",
    ),
    Layout(
        "an ensemble with an empty one", both(models.write_parts, bare_version), CHAINS, CHAINS, named="chain"
    ),
    Layout(
        "an ensemble without its parts",
        models.write_ensemble,
        "contains models that are not available",
        "contains models that are not available",
        named="chain",
    ),
    Layout(
        "a part in a folder of another name",
        both(models.ensemble, renamed("double", "twice")),
        "failed to poll model 'double'",
        "contains models that are not available",
        named="chain",
    ),
    Layout('platform:"ensemble"', chain(scheduler='platform:"ensemble"'), CHAINS, CHAINS, named="chain"),
    # A form that the configuration allows, and that the front end of multi-model mode does not recognize.
    Layout("a blank before the colon", chain(scheduler='platform : "ensemble"'), CHAINS, named="chain"),
    Layout("other quotes", chain(scheduler="platform: 'ensemble'"), CHAINS, named="chain"),
    Layout(
        "backend instead of platform",
        chain(scheduler='backend: "ensemble"'),
        "ensemble scheduling cannot be set for model 'chain' whose platform is not ensemble",
        named="chain",
    ),
    Layout(
        "platform in a comment alone",
        chain(scheduler='# platform: "ensemble"\nbackend: "ensemble"'),
        "ensemble scheduling cannot be set for model 'chain' whose platform is not ensemble",
        "failed to poll",
        named="chain",
    ),
    Layout(
        "a config with the folder's name",
        lambda folder: models.write_model(folder / "double", name="double"),
        DOUBLES,
        DOUBLES,
    ),
    # In multi-model mode the model gets the target's name, whatever its config's name is.
    Layout(
        "a config with another name",
        lambda folder: models.write_model(folder / "double", name="another"),
        "unexpected directory name 'double' for model 'another'",
        DOUBLES,
    ),
    Layout(
        "no version folder",
        both(models.single, without("double/1")),
        "at least one version must be available",
        "at least one version must be available",
    ),
    Layout(
        "no config",
        both(models.single, without("double/config.pbtxt")),
        "failed to open text file for read /opt/ml/model/double/config.pbtxt",
        "failed to poll",
    ),
    Layout("a config that cannot be read", configured("no pbtxt {"), "failed to read text proto", "failed"),
    Layout(
        "a backend that nobody has",
        configured('backend: "nobody_has_it"\nmax_batch_size: 0'),
        "unable to find backend library for backend 'nobody_has_it'",
        "unable to find backend library for backend 'nobody_has_it'",
    ),
    Layout(
        "a model that fails",
        lambda folder: models.write_model(folder / "double", code=models.BROKEN_CODE),
        "RuntimeError: the weights are missing",
        "RuntimeError: the weights are missing",
    ),
]


@pytest.mark.own_server
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.called.replace(" ", "-"))
def test_on_a_server_of_one_model(driver, layout):
    environment = {} if layout.named is None else {DEFAULT_MODEL: layout.named}
    if isinstance(layout.single, str):
        with pytest.raises(RejectedError) as caught:
            driver.start(layout.lay, environment)
        assert layout.single in str(caught.value)
        return
    server = driver.start(layout.lay, environment)
    answer = server.request("POST", "/invocations", body=numbers(1))
    server.stop()
    assert output(answer)["data"] == [layout.single]


@pytest.mark.own_server
@pytest.mark.parametrize(
    "layout",
    [layout for layout in LAYOUTS if layout.many is not None],
    ids=lambda layout: layout.called.replace(" ", "-"),
)
def test_on_a_server_of_many_models(many, layout):
    name, target = f"layout{LAYOUTS.index(layout)}", f"layouts/{LAYOUTS.index(layout)}.tar.gz"
    many.lay(name, layout.lay)
    loaded = many.load(name, target)
    if isinstance(layout.many, str):
        assert loaded.status == 400
        assert layout.many in said(loaded)
        assert many.described(name).status == 404
        return
    assert loaded.status == 200, loaded.body
    assert output(many.invoke(name, target, numbers(1)))["data"] == [layout.many]


@pytest.mark.own_server
def test_default_among_several_plain_models_is_undefined(many):
    """The last folder of the listing is served: neither order of names nor of writing decides."""
    many.lay("chance", models.write_parts)
    assert many.load("chance", "chance.tar.gz").status == 200
    assert output(many.invoke("chance", "chance.tar.gz", numbers(1)))["data"] in ([DOUBLES], [TREBLES])
