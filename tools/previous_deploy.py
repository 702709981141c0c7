"""Say which commit was last deployed from end to end, as an output of a workflow's step.

    python tools/previous_deploy.py --workflow deploy.yml --or "$BEFORE" >> "$GITHUB_OUTPUT"

What the push before this one brought may have failed, or was never approved: whoever compared with it would
take that for deployed. Before anything has been, it is the commit given; without one, every environment is
asked for, and so nothing is said. Needs gh, and a token that may read actions.
"""

from __future__ import annotations

import argparse
import subprocess
import sys


def main(arguments: list[str]) -> int:
    """Print `before=<commit>`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workflow", required=True, help="the file of the workflow that deploys")
    parser.add_argument("--or", dest="given", required=True, help="what the push found, by GitHub's word")
    options = parser.parse_args(arguments)
    print(f"before={(_last_deployed(options.workflow) or options.given) if options.given else ''}")
    return 0


def _last_deployed(workflow: str) -> str:
    only = ("--status", "success", "--limit", "1", "--json", "headSha", "--jq", ".[].headSha")
    command = ["gh", "run", "list", "--workflow", workflow, *only]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
