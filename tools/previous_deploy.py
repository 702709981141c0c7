"""Print the last commit that was deployed to every environment, as an output of a workflow step.

    python tools/previous_deploy.py --workflow deploy.yml --or "$BEFORE" >> "$GITHUB_OUTPUT"

The previous push may have failed or was never approved, so it is not what is deployed. Before the first
successful deploy, print the given commit; without one, print an empty value, which selects every environment.
Needs gh, and a token that can read actions.
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
    parser.add_argument("--workflow", required=True, help="the workflow file that deploys")
    parser.add_argument(
        "--or", dest="given", required=True, help="the commit before the push, from the event"
    )
    options = parser.parse_args(arguments)
    print(f"before={(_last_deployed(options.workflow) or options.given) if options.given else ''}")
    return 0


def _last_deployed(workflow: str) -> str:
    only = ("--status", "success", "--limit", "1", "--json", "headSha", "--jq", ".[].headSha")
    command = ["gh", "run", "list", "--workflow", workflow, *only]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
