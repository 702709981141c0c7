"""Check the documents: examples validate, commands exist, and links resolve."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from model_build.graphs.precision import LEAST_GAIN
from tritonstack.base.paths import find_project
from tritonstack.base.yaml import Record, load_document
from tritonstack.cli.registry import COMMANDS
from tritonstack.facts.releases import RELEASES
from tritonstack.files.environment.delivery import DeliverySpec
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.tolerance import DEFAULT_TOLERANCES, Tolerance

ROOT = find_project(Path(__file__).parent).root
TUTORIALS = [*(ROOT / "examples").glob("*.md"), *(ROOT / "examples").glob("*/README.md")]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *TUTORIALS], key=str)

NEWEST = max(RELEASES)
"""The release used by this project's environments, examples, and documents."""
RECORDS: dict[str, type[Record]] = {"# models/": ModelSpec, "# delivery.yaml": DeliverySpec}
"""What an example is by its first line, where it is no environment."""
ENVIRONMENT_HEAD = f"""\
name: example
account: "111111111111"
region: eu-west-1
triton_release: "{NEWEST}"
"""


def blocks(language: str) -> Iterator[tuple[Path, str]]:
    for document in DOCUMENTS:
        for text in re.findall(rf"```{language}\n(.*?)```", document.read_text(), re.DOTALL):
            yield document, text


@pytest.mark.parametrize(("document", "text"), list(blocks("yaml")))
def test_every_yaml_example_is_valid(document: Path, text: str, tmp_path: Path) -> None:
    file = tmp_path / "example.yaml"
    # Complete an example that shows only endpoints.
    file.write_text(f"{ENVIRONMENT_HEAD}{text}" if text.startswith("endpoints:") else text)
    shown = next((record for start, record in RECORDS.items() if text.startswith(start)), EnvironmentSpec)
    load_document(file, shown)


@pytest.mark.parametrize(("document", "text"), list(blocks("python")))
def test_every_python_example_compiles(document: Path, text: str) -> None:
    compile(text, str(document), "exec")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_every_command_shown_exists(document: Path) -> None:
    known = set(COMMANDS)
    shown = set(re.findall(r"^(?:eval \"\$\()?tritonstack ([a-z]+)", document.read_text(), re.MULTILINE))
    assert shown <= known


@pytest.mark.parametrize(
    "document", [one for one in DOCUMENTS if "cdk bootstrap aws://" in one.read_text()], ids=str
)
def test_every_bootstrap_shown_selects_stacks(document: Path) -> None:
    """The CDK CLI runs the app before it bootstraps, and ends if the app has no stacks."""
    commands = re.findall(r"^ *cdk bootstrap aws://.*$", document.read_text(), re.MULTILINE)
    assert [one for one in commands if " -c " not in one] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_every_link_and_path_has_a_target(document: Path) -> None:
    text = document.read_text()
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    folders = re.findall(r"`((?:[a-z_]+/)+)`", text)
    missing = [link for link in links if not _has_target(document, link)]
    missing += [folder for folder in folders if not (ROOT / folder).exists() and folder[0] != "."]
    assert missing == []


def _has_target(document: Path, link: str) -> bool:
    """Return whether a link leads to an existing file, and to a heading in it if it names one."""
    path, _, heading = link.partition("#")
    target = document.parent / path if path else document
    return target.exists() and (not heading or heading in _headings(target.read_text()))


def _headings(text: str) -> set[str]:
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in found}


SHOWN_RELEASE = re.compile(
    r"""(?:triton_release: |^\s+release: |TritonImage\()"(\d{2}\.\d{2})\"|\bsm\d+-(\d{2}\.\d{2})\b""", re.M
)


@pytest.mark.parametrize(
    "file",
    [
        *DOCUMENTS,
        *sorted((ROOT / "environments").glob("*.yaml")),
        *sorted((ROOT / "examples").glob("*/environments/*.yaml")),
        ROOT / "tritonstack/constructs/endpoint/triton_model.py",
    ],
    ids=lambda file: file.name,
)
def test_every_release_shown_is_the_newest(file: Path) -> None:
    """A person who copies an example gets the release with the fewest published vulnerabilities."""
    shown = {release or target for release, target in SHOWN_RELEASE.findall(file.read_text())}
    assert shown <= {NEWEST}


def test_the_releases_are_listed() -> None:
    text = (ROOT / "docs/endpoints.md").read_text()
    section = text.partition("### Triton release\n")[2].partition(". Use the newest")[0]
    assert re.findall(r"\d{2}\.\d{2}", section) == list(RELEASES)


def test_default_tolerances_are_those_of_the_code() -> None:
    text = (ROOT / "docs" / "models.md").read_text()
    stated = {}
    for row in re.findall(r"^\| `(\w+)` \|.*\| (`cosine: .*`) \|$", text, flags=re.MULTILINE):
        bounds = (bound.split(": ") for bound in re.findall(r"`([^`]+)`", row[1]))
        stated[row[0]] = Tolerance(**{measure: float(bound) for measure, bound in bounds})
    assert stated == DEFAULT_TOLERANCES
    assert f"at least {LEAST_GAIN} times as fast" in " ".join(text.split())
