"""Keep one comment on a pull request up to date: written the first time, changed from then on.

    PULL_REQUEST=7 python tools/pull_request_comment.py --about diff-dev --file diff.md

A mark that nobody sees tells the comments of several workflows apart. Needs gh, and a token that may write
comments.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

LONGEST = 65_000
"""GitHub takes 65,536 characters."""
_SILENCE = "The command failed before it could say anything here: the log of the workflow says why."
"""A step that fails leaves an empty file: what stood in the comment before it is true no more."""


def main(arguments: list[str]) -> int:
    """Find the comment with the mark, and write it anew; or the first one."""
    options = _parse(arguments)
    comments = f"repos/{os.environ['GITHUB_REPOSITORY']}/issues"
    number = os.environ["PULL_REQUEST"]
    text = options.file.read_text()
    shown = _SILENCE if not text.strip() else f"```text\n{text.rstrip()}\n```" if options.verbatim else text
    body = json.dumps({"body": comment_text(options.about, shown)})
    found = _gh("--paginate", f"{comments}/{number}/comments", "--jq", _query(options.about))
    if found:
        _gh("--method", "PATCH", f"{comments}/comments/{found.splitlines()[0]}", "--input", "-", given=body)
    else:
        _gh("--method", "POST", f"{comments}/{number}/comments", "--input", "-", given=body)
    return 0


def comment_text(about: str, text: str) -> str:
    """The comment, with its mark, cut where GitHub takes no more."""
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}\n\n… and more: the log of the workflow has all of it."
    return f"{_mark(about)}\n{text}"


def _mark(about: str) -> str:
    return f"<!-- tritonstack: {about} -->"


def _query(about: str) -> str:
    return f'.[] | select(.body | startswith("{_mark(about)}")) | .id'


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--about", required=True, help="what tells this comment from others")
    parser.add_argument("--file", required=True, type=Path, help="the comment's text, as Markdown")
    parser.add_argument("--verbatim", action="store_true", help="show the text as it is")
    return parser.parse_args(arguments)


def _gh(*arguments: str, given: str | None = None) -> str:
    command = ["gh", "api", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, input=given).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
