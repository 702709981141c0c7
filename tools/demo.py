"""`make demo`: build, deploy, invoke, and destroy a model on this machine with the documented commands.

Builds MiniLM from its weights, starts the local cloud, bootstraps and deploys with the CDK CLI, invokes
the endpoint through boto3, destroys everything, and checks that nothing remains. Exits with 0 only if every
step succeeds.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tritonstack.base.errors import TritonstackError
from tritonstack.base.paths import find_project
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.operate.deploy.bootstrap import remove_bootstrap
from tritonstack.operate.invoke.invoke import invoke
from tritonstack.operate.shared.local_cloud import read_address, read_inventory
from tritonstack.operate.shared.session import Session

if TYPE_CHECKING:
    from tritonstack.operate.shared.local_cloud import LocalCloudAddress

ENVIRONMENT, ENDPOINT = "local", "minilm"

PARAPHRASES = (
    ("A man is eating food.", "Someone is having a meal."),
    ("The new phone has a great camera.", "This smartphone takes excellent pictures."),
    ("Interest rates went up again this month.", "Borrowing money has become more expensive."),
)

console = Console(soft_wrap=True, highlight=False, emoji=False)


class DemoFailedError(Exception):
    """A step of the demo failed."""


@dataclass(frozen=True)
class Demo:
    """State shared by the steps."""

    session: Session
    spec: EnvironmentSpec

    def address(self) -> LocalCloudAddress:
        """Return the address of the local cloud."""
        address = read_address(self.session.project.cloud_dir())
        if address is None:
            raise DemoFailedError("the local cloud is not running")
        return address


def main() -> int:
    """Run every step, and always stop the cloud at the end."""
    os.environ["TRITONSTACK_CLOUD"] = "demo"
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that SIGTERM stops the cloud too
    session = Session(find_project(Path.cwd()))
    demo = Demo(session, session.workspace(ENVIRONMENT).spec)
    started = time.monotonic()
    try:
        for title, step in STEPS:
            console.rule(f"[bold]{title}", align="left")
            step(demo)
    except (DemoFailedError, TritonstackError) as error:
        console.print(f"[bold red]the demo failed:[/] {escape(str(error))}")
        return 1
    except KeyboardInterrupt:
        console.print("[bold red]interrupted")
        return 1
    finally:
        forget()
    console.rule(f"[bold green]all steps passed in {time.monotonic() - started:.0f} s", align="left")
    console.print("next: `Bring your model` in README.md")
    return 0


def forget() -> None:
    """Stop the demo's cloud and delete its state."""
    run("tritonstack", "down", "--forget", quiet=True)


def build(_: Demo) -> None:
    """Step 1."""
    run("tritonstack", "build", ENVIRONMENT, "--no-publish")


def bring_up(demo: Demo) -> None:
    """Step 2."""
    forget()  # an interrupted demo may have left its cloud running
    run("tritonstack", "up", "--detach", "--region", demo.spec.region)


def deploy(_: Demo) -> None:
    """Step 3."""
    run("tritonstack", "deploy", ENVIRONMENT, "--bootstrap")


def ask(demo: Demo) -> None:
    """Step 4: paraphrases must be more similar than unrelated texts."""
    texts = list(itertools.chain.from_iterable(PARAPHRASES))
    embedding = invoke(demo.session, ENVIRONMENT, ENDPOINT, texts).outputs["embedding"]
    similarity = embedding @ embedding.T
    console.print(_similarity_table(texts, similarity))
    paired = [similarity[2 * index, 2 * index + 1] for index in range(len(PARAPHRASES))]
    unrelated = [
        similarity[first, other]
        for first, other in itertools.combinations(range(len(texts)), 2)
        if first // 2 != other // 2
    ]
    console.print(
        f"lowest paraphrase {min(paired):.2f}, highest unrelated pair {max(unrelated):.2f}", style="bold"
    )
    if min(paired) <= max(unrelated):
        raise DemoFailedError("an unrelated pair scores above a paraphrase")


def destroy(demo: Demo) -> None:
    """Step 5."""
    run("tritonstack", "destroy", ENVIRONMENT, "--yes")
    remove_bootstrap(demo.session, demo.spec)
    console.print("the CDK bootstrap stack is deleted too")


def check_leftovers(demo: Demo) -> None:
    """Step 6: list the remaining resources of every service."""
    inventory = read_inventory(demo.address().environment())
    leftovers = [item for item in inventory if not item.get("pending_deletion")]
    for item in inventory:
        if item not in leftovers:
            console.print(f"  {item['service']} {item['type']} {item['id']} is scheduled for deletion")
    for item in leftovers:
        console.print(f"  {item['service']} {item['type']} {item['id']}")
    console.print(f"remaining resources: {len(leftovers) or 'none'}")
    if leftovers:
        raise DemoFailedError(f"{len(leftovers)} resources remain")


STEPS: tuple[tuple[str, Callable[[Demo], None]], ...] = (
    ("1 build and verify the model from its weights", build),
    ("2 start the local cloud", bring_up),
    ("3 bootstrap and deploy with the CDK", deploy),
    ("4 invoke the endpoint through boto3", ask),
    ("5 destroy everything", destroy),
    ("6 check what remains", check_leftovers),
)


def run(*command: str, quiet: bool = False) -> None:
    """Run a command; with `quiet`, show its output only if it fails."""
    console.print(f"[bold cyan]$ {escape(' '.join(command))}")
    result = subprocess.run(
        command,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
        check=False,
    )
    if result.returncode:
        raise DemoFailedError(
            f"`{' '.join(command)}` failed with exit code {result.returncode}\n{result.stdout or ''}"
        )


def _similarity_table(texts: list[str], similarity: np.ndarray[Any, Any]) -> Table:
    table = Table(title="cosine similarity", show_lines=False)
    table.add_column("")
    for index in range(len(texts)):
        table.add_column(str(index + 1), justify="right")
    for row, text in enumerate(texts):
        cells = [
            f"[bold green]{value:.2f}[/]" if row // 2 == column // 2 and row != column else f"{value:.2f}"
            for column, value in enumerate(similarity[row])
        ]
        table.add_row(f"{row + 1} {text}", *cells)
    return table


if __name__ == "__main__":
    sys.exit(main())
