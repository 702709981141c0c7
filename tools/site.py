"""`make docs`: build the documentation site from docs/, the examples, and the files for contributors.

All pages are Markdown files that also read well on their own. They are copied into one folder, where links
between them are adapted to their places on the site, and Zensical renders them. A link to a missing page or
heading fails the build.

    python -m tools.site [FOLDER]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
FOLDER = ROOT / "build" / "docs"
CONFIG = "zensical.toml"
OTHER_PAGES = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "packages/local_cloud/COVERAGE.md": "reference/local-cloud-coverage.md",
}
"""Pages outside of docs/ and examples/, and their places on the site."""
LINK = re.compile(r"(\]\()([^)#\s]*)([^)]*\))")
COLORS = re.compile(r"\x1b\[[0-9;]*m")
CODE = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)


class SiteError(Exception):
    """The site cannot be built."""


def sources() -> dict[Path, Path]:
    """Return the files of the site, each with its place in the site's folder."""
    files = {
        file: _place_in_docs(file.relative_to(DOCS))
        for file in sorted(DOCS.rglob("*"))
        if file.is_file() and file.name != CONFIG
    }
    files[ROOT / "examples" / "README.md"] = Path("examples/index.md")
    for file in sorted((ROOT / "examples").glob("*/README.md")):
        files[file] = Path("examples", f"{file.parent.name}.md")
    return {**files, **{ROOT / name: Path(place) for name, place in OTHER_PAGES.items()}}


def _place_in_docs(path: Path) -> Path:
    return path.with_name("index.md") if path.name == "README.md" else path


def site_text(file: Path, places: dict[Path, Path]) -> str:
    """Return a page with its links adapted to the site; raise SiteError for a link that leads nowhere."""
    text, here = file.read_text(encoding="utf-8"), places[file]

    def adapted(link: re.Match[str]) -> str:
        start, path, rest = link.groups()
        if not path or "://" in path or path.startswith("mailto:"):
            return link[0]
        place = places.get((file.parent / path).resolve())
        if place is None:
            line = text[: link.start()].count("\n") + 1
            raise SiteError(f"{file.relative_to(ROOT)}:{line}: {path} is not a page of the site")
        return f"{start}{os.path.relpath(place, here.parent)}{rest}"

    end, parts = 0, []
    for code in CODE.finditer(text):
        # Blocks have no prompts, so the colors of a session would show commands as output.
        parts += [LINK.sub(adapted, text[end : code.start()]), code[0].replace("```console", "```bash", 1)]
        end = code.end()
    return "".join([*parts, LINK.sub(adapted, text[end:])])


def copy_pages(folder: Path) -> None:
    """Write the pages and the configuration into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    places = sources()
    for file, place in places.items():
        target = folder / "pages" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            target.write_text(site_text(file, places), encoding="utf-8")
        else:
            shutil.copy(file, target)
    settings = (DOCS / CONFIG).read_text(encoding="utf-8").replace("@VERSION@", version("tritonstack"))
    (folder / CONFIG).write_text(settings, encoding="utf-8")


def build(folder: Path) -> Path:
    """Build the site; return the folder with its HTML files."""
    copy_pages(folder)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(folder / CONFIG)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        # The last lines of a failed strict build are a traceback of Zensical's own code.
        problems = (ended.stdout + ended.stderr).partition("Traceback")[0].strip()
        raise SiteError(COLORS.sub("", problems))
    return folder / "site"


def addresses(text: str) -> Iterator[str]:
    """Yield what an HTML page or a stylesheet loads from elsewhere when it is viewed."""
    loads = r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?(?:https?:)?//[^"'\s>]+"""
    styles = r"""<link[^>]*rel=["']?(?:stylesheet|preconnect|preload)[^>]*href=["']?(?:https?:)?//[^"'\s>]+"""
    imports = r"""(?:url\(|@import )["']?(?:https?:)?//[^"')\s]+"""
    yield from re.findall(f"{loads}|{styles}|{imports}", text)


def main() -> int:
    """Build the site, and print where it is."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description="Build the documentation site.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="default: build/docs")
    try:
        site = build(parser.parse_args().folder.resolve())
    except SiteError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"wrote {site}; show it with `python -m http.server --bind 127.0.0.1 --directory {site}`")
    return 0


if __name__ == "__main__":
    sys.exit(main())
