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
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tritonstack.base.errors import TritonstackError
from tritonstack.base.paths import find_project
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.operate.destroy.deletion import empty_bucket
from tritonstack.operate.invoke.invoke import invoke
from tritonstack.operate.shared.local_cloud import read_address, read_inventory
from tritonstack.operate.shared.session import Session
from tritonstack.operate.shared.stacks import describe_stack, stack_resources

ENVIRONMENT, ENDPOINT = "local", "minilm"

PARAPHRASES = (
    ("A man is eating food.", "Someone is having a meal."),
    ("The new phone has a great camera.", "This smartphone takes excellent pictures."),
    ("Interest rates went up again this month.", "Borrowing money has become more expensive."),
)

console = Console(soft_wrap=True, highlight=False, emoji=False)


class DemoFailedError(Exception):
    """A step of the demo failed."""


def main() -> int:
    """Run every step, and always stop the cloud at the end."""
    os.environ["TRITONSTACK_CLOUD"] = "demo"
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that SIGTERM stops the cloud too
    started = time.monotonic()
    try:
        demonstrate(Session(find_project(Path.cwd())))
    except (DemoFailedError, TritonstackError) as error:
        console.print(f"[bold red]the demo failed:[/] {escape(str(error))}")
        return 1
    except KeyboardInterrupt:
        console.print("[bold red]interrupted")
        return 1
    finally:
        run("down --forget", quiet=True)
    console.rule(f"[bold green]all steps passed in {time.monotonic() - started:.0f} s", align="left")
    console.print("next: `Bring your model` in README.md")
    return 0


def demonstrate(session: Session) -> None:
    """Run the steps."""
    spec = session.workspace(ENVIRONMENT).spec
    title("1 build and verify the model from its weights")
    run(f"build {ENVIRONMENT} --no-publish")
    title("2 start the local cloud")
    run("down --forget", quiet=True)  # an interrupted demo may have left its cloud running
    run(f"up --detach --region {spec.region}")
    title("3 bootstrap and deploy with the CDK")
    run(f"deploy {ENVIRONMENT} --bootstrap")
    title("4 invoke the endpoint through boto3")
    compare(session)
    title("5 destroy everything")
    run(f"destroy {ENVIRONMENT} --yes")
    remove_bootstrap(session, spec)
    console.print("the CDK bootstrap stack is deleted too")
    title("6 check what remains")
    check_leftovers(session)


def title(text: str) -> None:
    """Print the title of a step."""
    console.rule(f"[bold]{text}", align="left")


def compare(session: Session) -> None:
    """Check that paraphrases are more similar than unrelated texts."""
    texts = list(itertools.chain.from_iterable(PARAPHRASES))
    embedding = invoke(session, ENVIRONMENT, ENDPOINT, texts).outputs["embedding"]
    similarity = embedding @ embedding.T
    table = Table("", *map(str, range(1, len(texts) + 1)), title="cosine similarity")
    pairs: dict[bool, list[float]] = {True: [], False: []}
    for row, text in enumerate(texts):
        is_pair = [row // 2 == column // 2 for column in range(len(texts))]
        for column in range(row):
            pairs[is_pair[column]].append(similarity[row, column])
        cells = (
            f"[bold green]{value:.2f}[/]" if pair and column != row else f"{value:.2f}"
            for column, (value, pair) in enumerate(zip(similarity[row], is_pair, strict=True))
        )
        table.add_row(f"{row + 1} {text}", *cells)
    console.print(table)
    lowest, highest = min(pairs[True]), max(pairs[False])
    console.print(f"lowest paraphrase {lowest:.2f}, highest unrelated pair {highest:.2f}", style="bold")
    if lowest <= highest:
        raise DemoFailedError("an unrelated pair scores above a paraphrase")


def remove_bootstrap(session: Session, spec: EnvironmentSpec) -> None:
    """Undo `cdk bootstrap`, whose template retains its bucket."""
    cloud, stack = session.cloud(spec), spec.bootstrap.stack
    if describe_stack(cloud, stack) is None:
        return
    client, resources = cloud.client("cloudformation"), list(stack_resources(cloud, stack))
    client.delete_stack(StackName=stack)
    client.get_waiter("stack_delete_complete").wait(StackName=stack, WaiterConfig={"Delay": 1})
    for resource in resources:
        if resource["ResourceType"] == "AWS::S3::Bucket":
            empty_bucket(cloud, resource["PhysicalResourceId"])
            cloud.client("s3").delete_bucket(Bucket=resource["PhysicalResourceId"])


def check_leftovers(session: Session) -> None:
    """List the remaining resources of every service."""
    address = read_address(session.project.cloud_dir())
    if address is None:
        raise DemoFailedError("the local cloud is not running")
    leftovers = 0
    for item in read_inventory(address.environment()):
        ending = " is scheduled for deletion" if item.get("pending_deletion") else ""
        leftovers += not ending
        console.print(f"  {item['service']} {item['type']} {item['id']}{ending}")
    console.print(f"remaining resources: {leftovers or 'none'}")
    if leftovers:
        raise DemoFailedError(f"{leftovers} resources remain")


def run(arguments: str, *, quiet: bool = False) -> None:
    """Run a command of tritonstack; with `quiet`, show its output only if it fails."""
    console.print(f"[bold cyan]$ tritonstack {escape(arguments)}")
    ended = subprocess.run(
        ["tritonstack", *arguments.split()],
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise DemoFailedError(
            f"`tritonstack {arguments}` failed with exit code {ended.returncode}\n{ended.stdout or ''}"
        )


if __name__ == "__main__":
    sys.exit(main())
