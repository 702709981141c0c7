"""Create or update one comment on a pull request.

    PULL_REQUEST=7 python tools/pull_request_comment.py --about diff-dev --file diff.md

An invisible marker distinguishes the comments of several workflows. Needs gh, and a token that can write
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
"""GitHub accepts 65,536 characters."""
_SILENCE = "The command failed without output: see the log of the workflow."
"""Text for an empty file, which a failed step leaves: the previous comment is outdated."""


def main(arguments: list[str]) -> int:
    """Update the comment with the marker, or create it."""
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
    """Return the comment with its marker, cut at GitHub's limit."""
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}\n\n… truncated: see the log of the workflow."
    return f"{_mark(about)}\n{text}"


def _mark(about: str) -> str:
    return f"<!-- tritonstack: {about} -->"


def _query(about: str) -> str:
    return f'.[] | select(.body | startswith("{_mark(about)}")) | .id'


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--about", required=True, help="the marker of this comment")
    parser.add_argument("--file", required=True, type=Path, help="the comment's text, as Markdown")
    parser.add_argument("--verbatim", action="store_true", help="show the text as it is")
    return parser.parse_args(arguments)


def _gh(*arguments: str, given: str | None = None) -> str:
    command = ["gh", "api", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, input=given).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
