"""Check that a tag, the built wheels, and the changelog name the same version.

    python tools/check_release.py
    python tools/check_release.py v0.2.0 --wheels dist --notes notes.md --as-outputs >> "$GITHUB_OUTPUT"
    python tools/check_release.py v0.2.0 --wheels dist --hashes "$HASHES"

The first form runs in the tests: one version has one changelog entry and one tag. So the files name a
development version, such as 0.2.0.dev0, except in the commit that gives the changelog its next release.
The second form runs after the build: it writes the changelog section of the version to `notes.md` and prints
the SHA-256 of each wheel. The third form runs before publishing: it also requires exactly these hashes, as a
release's files can be replaced while the publishing job waits for approval. Run it in the repository root.
"""

from __future__ import annotations

import argparse
import email
import hashlib
import json
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

TAG = re.compile(r"v(\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?)")
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(\.dev\d+|(?:a|b|rc)\d+)?")
CHANGELOG = Path("CHANGELOG.md")


def main(arguments: list[str]) -> int:
    """Print every violation; return 1 if there is one."""
    options = _parse(arguments)
    changelog = CHANGELOG.read_text(encoding="utf-8")
    if options.tag is None:
        return _report(list(_development(changelog)))
    tag = TAG.fullmatch(options.tag)
    if tag is None:
        return _report(
            [f"invalid tag {options.tag!r}: expected v1.2.3, or that with a1, b1, or rc1 after it"]
        )
    wheels = sorted(options.wheels.glob("*.whl"))
    hashes = {wheel.name: hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels}
    notes = release_notes(changelog, tag[1])
    violations = [*_declarations(tag[1], f"the tag is v{tag[1]}"), *_wheels(tag[1], wheels)]
    if not notes:
        violations.append(
            f"{CHANGELOG}: no section `## [{tag[1]}] - <date>` with text\n"
            "  help: give the section Unreleased this heading, and start a new one above it"
        )
    if options.hashes is not None:
        violations += _changed(json.loads(options.hashes), hashes)
    if violations:
        return _report(violations)
    if options.notes:
        options.notes.write_text(notes, encoding="utf-8")
    if options.as_outputs:
        print(f"hashes={json.dumps(hashes)}")
    return 0


def release_notes(changelog: str, version: str) -> str:
    """Return the text below `## [version] - date`, or an empty string if there is none."""
    heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d{{2}}-\d{{2}}\n(.*?)(?=^## |^\[[^\]]+\]: |\Z)"
    section = re.search(heading, changelog, re.MULTILINE | re.DOTALL)
    return section[1].strip() + "\n" if section and section[1].strip() else ""


def distributions() -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the file and the `project` table of each distribution of this repository."""
    for file in (Path("pyproject.toml"), *sorted(Path().glob("packages/*/pyproject.toml"))):
        yield file, tomllib.loads(file.read_text(encoding="utf-8"))["project"]


def _development(changelog: str) -> Iterator[str]:
    """Yield why a version would name two states of the code: the released one and this one."""
    (_, project), *_ = distributions()
    version = project["version"]
    yield from _declarations(version, f"pyproject.toml says {version}")
    released = re.findall(r"^## \[(\d[^\]]*)\]", changelog, re.MULTILINE)
    for duplicate in sorted({name for name in released if released.count(name) > 1}):
        yield f"{CHANGELOG}: two sections of {duplicate}"
    newest = released[0] if released else "0.0.0"
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if version == newest and not (unreleased and unreleased[1].strip()):
        return
    number, kind = _numbers(version)
    if not kind.startswith(".dev") or number <= _numbers(newest)[0]:
        yield (
            f"pyproject.toml: version: {version}, but the changelog released {newest} and has newer changes\n"
            "  help: set the next development version, such as 0.2.0.dev0 after 0.1.0"
        )


def _numbers(version: str) -> tuple[tuple[int, ...], str]:
    parsed = VERSION.fullmatch(version)
    return (tuple(int(part) for part in parsed.groups()[:3]), parsed[4] or "") if parsed else ((), "")


def _declarations(version: str, reason: str) -> Iterator[str]:
    """Yield each version of this repository's distributions, and each pin of one, that is another."""
    named = list(distributions())
    own = {project["name"] for _, project in named}
    for file, project in named:
        lists = [project.get("dependencies", []), *project.get("optional-dependencies", {}).values()]
        needs = [need for needs in lists for need in needs]
        pins = [need.split("==") for need in needs if need.partition("==")[0] in own and "==" in need]
        # A dynamic version shows in the wheel.
        for key, declared in [("version", project.get("version", version)), *pins]:
            if declared == version:
                continue
            lines = enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
            line = next(
                n for n, text in lines if text.strip().startswith((f"{key} ", f'"{key}=={declared}"'))
            )
            remedy = f"change the version, or tag v{declared}"
            yield f"{file}:{line}: {key}: {declared}, but {reason}\n  help: {remedy}"


def _wheels(version: str, wheels: Sequence[Path]) -> Iterator[str]:
    expected = {project["name"] for _, project in distributions()}
    built: dict[str, str] = {}
    for wheel in wheels:
        name, built_as = _name_and_version(wheel)
        if name in built:
            yield f"{wheel.name}: duplicate wheel of {name}, beside {built[name]}"
        built[name] = wheel.name
        if built_as != version:
            yield f"{wheel.name}: Version: {built_as}, but the tag is v{version}\n  help: run `make wheels`"
    for name in sorted(expected - built.keys()):
        yield f"missing wheel of {name}\n  help: run `make wheels`"
    for name in sorted(built.keys() - expected):
        yield f"{built[name]}: unexpected distribution {name}; expected {', '.join(sorted(expected))}"


def _name_and_version(wheel: Path) -> tuple[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [name for name in names if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
        fields = email.message_from_bytes(archive.read(metadata))
    return str(fields["Name"]), str(fields["Version"])


def _changed(expected: Mapping[str, str], actual: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(expected.keys() | actual.keys()):
        if expected.get(name) != actual.get(name):
            yield (
                f"checksum mismatch for {name}: got {actual.get(name, 'no file')}, "
                f"the build made {expected.get(name, 'no such file')}\n"
                "  help: delete the release, and run the workflow again"
            )


def _report(violations: Sequence[str]) -> int:
    for violation in violations:
        print(f"error: {violation}", file=sys.stderr)
    return 1 if violations else 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tag", nargs="?", help="the tag of the release, such as v0.2.0")
    parser.add_argument("--wheels", type=Path, default=Path("dist"), help="the folder of the wheels")
    parser.add_argument("--notes", type=Path, help="write the changelog section of the version to this file")
    parser.add_argument("--as-outputs", action="store_true", help="print the hashes as an output of a step")
    parser.add_argument("--hashes", help="require these hashes: JSON, as --as-outputs prints them")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
