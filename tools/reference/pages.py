"""The generated pages of docs/reference/."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.reference import classes, commands, results
from tools.reference.markdown import page
from tools.reference.yaml_keys import KeyTables
from tritonstack.base.yaml import Record
from tritonstack.files.environment.delivery import DeliverySpec
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.environment.templates import TemplateHead
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.locks import Lock
from tritonstack.files.records.manifests import Manifest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
FILES: dict[str, tuple[type[Record], str, str, str]] = {
    "model.md": (
        ModelSpec,
        "model.yaml",
        "models/NAME/model.yaml",
        "Every key of a model. [Models by example](../models.md) shows a complete file for each recipe.",
    ),
    "environment.md": (
        EnvironmentSpec,
        "Environment files",
        "environments/NAME.yaml",
        "Every key of an environment. [Endpoints by example](../endpoints.md) shows the options of "
        "endpoints. `NAME` is a name that you choose, and `[]` an item of a list.",
    ),
    "template.md": (
        TemplateHead,
        "Templates",
        "template",
        "A template is an [environment file](environment.md) with the key `template` and `${parameter}` in "
        "place of values. [Temporary environments](../previews.md) shows a complete file.",
    ),
    "delivery.md": (
        DeliverySpec,
        "delivery.yaml",
        "delivery.yaml",
        "Every key of the delivery file. [Delivery](../delivery.md) shows a complete one.",
    ),
    "lock.md": (
        Lock,
        "Locks",
        "environments/NAME.lock.yaml",
        "`build`, `promote`, and `rollback` write this file, and people review it. "
        "[Invalid locks](../runbook.md#invalid-locks) lists what is checked.",
    ),
    "manifest.md": (
        Manifest,
        "Manifests",
        "manifest.json",
        "A build writes `manifest.json` beside each `model.tar.gz`, as its last step. "
        "`tritonstack inspect MODEL` shows it.",
    ),
}


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page."""
    for name, (record, title, top, introduction) in FILES.items():
        yield name, page(title, introduction, KeyTables(record.model_json_schema(), top=top).sections())
    yield "cli.md", page("Commands", CLI, commands.sections())
    yield "constructs.md", page("Constructs", CONSTRUCTS, classes.sections())
    yield "results.md", page("JSON results", RESULTS, results.sections())


CLI = """\
Every command of `tritonstack`, from its own declarations. `tritonstack COMMAND --help` prints the same.

Options before the command: `--project FOLDER` selects a project, `--json` prints one JSON document, `--debug`
shows a traceback, and `--version` prints the version. Exit codes: 0 success, 1 failure, 2 wrong usage or an
invalid file.
"""
CONSTRUCTS = """\
Everything that `tritonstack.constructs` exports. [The constructs as a library](../constructs.md) shows a
complete app. Constructs also take `scope` and `construct_id`, as all constructs of the CDK do.
"""
RESULTS = """\
`tritonstack --json COMMAND` prints one document with these keys, from the types of the results. All keys are
always there. `[]` is an item of a list, and `NAME` any name. A command that fails prints the document
[error](#error).
"""
