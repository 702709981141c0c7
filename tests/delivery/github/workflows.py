"""Run this project's workflows on this machine as GitHub does: jobs in order, with the command of each step.

GitHub's parts are simulated strictly: a checkout clones a local repository, a role is assumed only if the
environment's stack allows this job, and `gh`, `make`, `sudo`, and `unshare` are stand-ins that know only the
calls they get. The steps' own commands really run.
"""

import copy
import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from tests.delivery.github.expressions import Payload, Scope, filled, holds, value_of
from tests.delivery.permissions.iam import roles, trusts_job

ROOT = Path(__file__).resolve().parents[3]
WORKFLOWS = ROOT / ".github" / "workflows"
STAND_INS = Path(__file__).parent / "stand_ins"
RECORDING = Path(__file__).parent / "recording"
_STEP_S = 240


def read_workflow(file: Path) -> dict[str, Any]:
    """Read a workflow file. YAML parses the key `on` as true."""
    data = copy.deepcopy(_parsed(file.read_text()))
    return {"on" if key is True else key: value for key, value in data.items()}


@functools.cache
def _parsed(text: str) -> dict[Any, Any]:
    """Parse a workflow once: each test reads several."""
    data: dict[Any, Any] = yaml.safe_load(text)
    return data


@dataclass(frozen=True)
class Event:
    """The event that started a workflow."""

    name: str
    ref: str
    payload: Mapping[str, Any]
    inputs: Mapping[str, str] = field(default_factory=dict)
    actor: str = "ann"
    sha: str = ""
    """The commit it was about, whatever the ref names later: by default, what it names when a run starts."""


@dataclass(frozen=True)
class Ran:
    """One executed step."""

    job: str
    command: str
    exit_code: int
    output: str


class RejectedError(AssertionError):
    """A job did what GitHub or AWS would not allow."""


@dataclass
class Runner:
    """Run the workflows of one repository, a bare one at `remote`.

    `delivery_stacks` are the templates of the delivery stacks.
    """

    remote: Path
    folder: Path
    repository: str
    delivery_stacks: Mapping[str, Mapping[str, Any]]
    variables: Mapping[str, str]
    prepare_checkout: Any
    """Puts into a checkout what `make setup-cli` would: called with its folder."""
    ends: Mapping[str, str] = field(default_factory=dict)
    """How jobs end that are not run here: what GitHub puts aside ends as `cancelled`."""
    said: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The outputs of such jobs."""
    cancelled: bool = False
    """Whether somebody, or a newer run, has ended the run."""
    ran: list[Ran] = field(default_factory=list)
    taken: list[tuple[str, str]] = field(default_factory=list)
    """Which job took on which role."""
    called: list[tuple[str, str, str]] = field(default_factory=list)
    """With which role which operation of which service of AWS was called."""

    def run(self, workflow: str, event: Event) -> dict[str, str]:
        """Run a workflow to its end; return the result of each job."""
        content = read_workflow(WORKFLOWS / workflow)
        self._require_trigger(content, event)
        event = replace(event, sha=event.sha or self.commit_of(event.ref))
        return self._jobs(content, event, {"github": self._github(event), "inputs": _inputs(content, event)})

    def commit_of(self, ref: str) -> str:
        """Return the commit of a ref."""
        there = ["git", "-C", str(self.remote), "rev-parse", ref]
        return subprocess.run(there, check=True, capture_output=True, text=True).stdout.strip()

    def _jobs(
        self, content: Mapping[str, Any], event: Event, contexts: Mapping[str, Any], *, within: str = ""
    ) -> dict[str, str]:
        results: dict[str, str] = {}
        outputs: dict[str, dict[str, Any]] = {}
        for name, job in _in_order(content["jobs"]):
            before = listed(job.get("needs", []))
            needs = {
                needed: {"result": results[needed], "outputs": outputs.get(needed, {})} for needed in before
            }
            ends = {results[needed] for needed in before}
            scope = Scope(
                {**contexts, "needs": needs},
                succeeded=ends <= {"success"} and not self.cancelled,
                cancelled=self.cancelled,
            )
            label = f"{within}{name}"
            if not holds(job.get("if"), scope):
                results[name] = "skipped"
            elif label in self.ends:
                results[name], outputs[name] = self.ends[label], dict(self.said.get(label, {}))
            elif "uses" in job:
                results[name] = self._called(label, job, event, scope)
            else:
                results[name], outputs[name] = self._each(label, job, event, scope)
        return results

    def _called(self, label: str, job: Mapping[str, Any], event: Event, scope: Scope) -> str:
        """Run a job that calls another workflow."""
        called = read_workflow(ROOT / job["uses"].removeprefix("./"))
        inputs = {key: value_of(value, scope) for key, value in job.get("with", {}).items()}
        declared = called["on"]["workflow_call"]["inputs"]
        assert set(inputs) == set(declared), (
            f"{label} gives {sorted(inputs)}, asked for are {sorted(declared)}"
        )
        for inner in called["jobs"].values():
            missing = {key for key in inner["permissions"] if key not in job["permissions"]}
            assert not missing, f"{label}: a called workflow gets no more than its caller has: {missing}"
        contexts = {"github": scope.contexts["github"], "inputs": inputs}
        results = self._jobs(called, event, contexts, within=f"{label}/")
        ends = set(results.values())
        return next((end for end in ("failure", "cancelled") if end in ends), "success")

    def _each(
        self, label: str, job: Mapping[str, Any], event: Event, scope: Scope
    ) -> tuple[str, dict[str, Any]]:
        """Yield a job, or one job per matrix entry."""
        matrix = job.get("strategy", {}).get("matrix", {})
        combinations: list[dict[str, Any]] = [{}]
        for key, values in matrix.items():
            combinations = [
                {**combination, key: value}
                for combination in combinations
                for value in value_of(values, scope)
            ]
        ended = [
            self._job(label, job, event, Scope({**scope.contexts, "matrix": combination}))
            for combination in combinations
        ]
        worst = "success" if all(result == "success" for result, _ in ended) else "failure"
        return worst, ended[-1][1] if ended else {}

    def _job(
        self, label: str, job: Mapping[str, Any], event: Event, scope: Scope
    ) -> tuple[str, dict[str, Any]]:
        place = self.folder / f"{len(self.ran)}-{label.replace('/', '-')}"
        place.mkdir(parents=True)
        job_run = _JobRun(self, label, job, event, place / "work", place)
        result, steps = job_run.steps(scope)
        self.called += [(job_run.role or "", service, operation) for service, operation in job_run.calls()]
        outputs = Scope({**scope.contexts, "steps": steps})
        job_outputs = job.get("outputs", {}) if result == "success" else {}
        return result, {key: value_of(value, outputs) for key, value in job_outputs.items()}

    def _github(self, event: Event) -> dict[str, Any]:
        return {
            "actor": event.actor,
            "event": Payload(event.payload),
            "event_name": event.name,
            "ref": event.ref,
            "repository": self.repository,
            "sha": event.sha,
            "token": "a-token-of-the-job",
        }

    def _require_trigger(self, content: Mapping[str, Any], event: Event) -> None:
        triggers = content["on"]
        if event.name not in triggers:
            raise RejectedError(f"{event.name} starts no such workflow")
        trigger = triggers[event.name] or {}
        if event.name == "push" and event.ref.removeprefix("refs/heads/") not in trigger["branches"]:
            raise RejectedError(f"a push to {event.ref} starts no such workflow")
        for name, spec in (trigger.get("inputs", {}) if event.name == "workflow_dispatch" else {}).items():
            value = event.inputs.get(name, "")
            if spec["required"] and not value:
                raise RejectedError(f"{name} has to be given")
            if spec["type"] == "choice" and value not in spec["options"]:
                raise RejectedError(f"{name}: {value!r} is none of {spec['options']}")


def _inputs(content: Mapping[str, Any], event: Event) -> dict[str, str]:
    """Return the given inputs, and an empty string for omitted optional ones."""
    declared = (
        (content["on"][event.name] or {}).get("inputs", {}) if event.name == "workflow_dispatch" else {}
    )
    return {**dict.fromkeys(declared, ""), **event.inputs}


@dataclass
class _JobRun:
    """One running job."""

    runner: Runner
    label: str
    job: Mapping[str, Any]
    event: Event
    work: Path
    place: Path
    paths: list[str] = field(default_factory=list)
    credentials: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    role: str | None = None
    _uploaded: str = ""

    def calls(self) -> list[list[str]]:
        """Return the AWS calls of its commands, each once."""
        file = self.place / "calls.jsonl"
        lines = sorted(set(file.read_text().splitlines())) if file.exists() else []
        return [json.loads(line) for line in lines]

    def steps(self, scope: Scope) -> tuple[str, dict[str, Any]]:
        """Run every step; return the job's result and the outputs of steps with an id."""
        self.work.mkdir()
        self.variables = {key: filled(str(value), scope) for key, value in self.job.get("env", {}).items()}
        outputs: dict[str, Any] = {}
        succeeded = True
        for step in self.job["steps"]:
            step_scope = Scope(
                {**scope.contexts, "steps": outputs}, succeeded=succeeded, hash_files=self._hash_files
            )
            if not holds(step.get("if"), step_scope):
                continue
            if "uses" in step:
                succeeded = self._use(step, step_scope) and succeeded
                if "id" in step:
                    outputs[step["id"]] = {"outputs": {"artifact-url": self._uploaded}}
                continue
            code, step_outputs = self._command(step, step_scope)
            succeeded = succeeded and code == 0
            if "id" in step:
                outputs[step["id"]] = {"outputs": step_outputs}
        return ("success" if succeeded else "failure"), outputs

    def _use(self, step: Mapping[str, Any], scope: Scope) -> bool:
        """Run an action; return whether it succeeded."""
        action = step["uses"].partition("@")[0]
        inputs = {key: value_of(value, scope) for key, value in step.get("with", {}).items()}
        match action:
            case "actions/checkout":
                self._check_out(inputs)
            case "aws-actions/configure-aws-credentials":
                self._take_on(inputs, scope)
            case "actions/setup-python" | "actions/setup-node":
                pass  # this machine has both
            case "actions/upload-artifact":
                self._upload(inputs)
            case _ if action.startswith("./"):
                return self._compose(action, inputs)
            case _:
                raise RejectedError(f"{self.label} uses {action}, which is not known here")
        return True

    def _upload(self, inputs: Mapping[str, Any]) -> None:
        """Keep one file, as GitHub does without an archive: a name that is not new needs `overwrite`."""
        assert inputs["archive"] is False
        file, artifact = self.work / inputs["path"], self.runner.folder / "artifacts" / inputs["path"]
        if not file.is_file() or (artifact.exists() and not inputs.get("overwrite")):
            raise RejectedError(f"{file.name} is missing, or was uploaded before")
        artifact.parent.mkdir(exist_ok=True)
        shutil.copy(file, artifact)
        self._uploaded = f"https://github.com/{self.runner.repository}/actions/runs/42/artifacts/{file.name}"

    def _compose(self, action: str, parameters: Mapping[str, Any]) -> bool:
        content = yaml.safe_load((ROOT / action / "action.yml").read_text())
        inputs = {name: spec["default"] for name, spec in content.get("inputs", {}).items()} | parameters
        for step in content["runs"]["steps"]:
            scope = Scope({"inputs": inputs})
            if "uses" in step:
                self._use(step, scope)
            else:
                code, _ = self._command(step, scope)
                if code:
                    return False
        return True

    def _check_out(self, inputs: Mapping[str, Any]) -> None:
        ref = str(inputs.get("ref") or self.event.ref)
        full_ref = ref if ref.startswith("refs/") else f"refs/heads/{ref}"
        if re.fullmatch("[0-9a-f]{40}", ref):
            full_ref, commit = "", ref
        else:
            commit = self.event.sha if full_ref == self.event.ref else self.runner.commit_of(full_ref)
        whole = inputs.get("fetch-depth") == 0
        branches = ["+refs/heads/*:refs/remotes/origin/*"] if whole else []
        self._git("init", "--quiet", str(self.work))
        here = ("-C", str(self.work))
        self._git(*here, "remote", "add", "origin", f"file://{self.runner.remote}")
        self._git(*here, "fetch", "--quiet", *([] if whole else ["--depth=1"]), "origin", *branches, commit)
        if full_ref.startswith("refs/heads/"):
            self._git(*here, "checkout", "--quiet", "-B", full_ref.removeprefix("refs/heads/"), commit)
        else:
            self._git(*here, "checkout", "--quiet", "--detach", commit)
        if inputs.get("persist-credentials") is False:
            # Without credentials, a push goes nowhere.
            self._git(*here, "remote", "set-url", "--push", "origin", "no-credentials-were-kept")
        elif self.job["permissions"].get("contents") != "write":
            self._git(*here, "remote", "set-url", "--push", "origin", "the-token-may-only-read")

    def _git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], check=True, capture_output=True)

    def _take_on(self, inputs: Mapping[str, Any], scope: Scope) -> None:
        """Assume a role if its trust policy allows a job with these claims."""
        if self.job["permissions"].get("id-token") != "write":
            raise RejectedError(f"{self.label} has no right to a token that says who it is")
        arn = inputs["role-to-assume"]
        account, name = arn.split(":")[4], arn.rpartition("/")[2]
        if inputs.get("allowed-account-ids", account) != account:
            raise RejectedError(f"{arn} is in none of the allowed accounts")
        token_claims = {
            name: role
            for template in self.runner.delivery_stacks.values()
            for name, role in roles(template).items()
        }
        if name not in token_claims:
            raise RejectedError(f"no stack makes the role {name}")
        longest = token_claims[name].get("MaxSessionDuration", 3600)
        if inputs.get("role-duration-seconds", 3600) > longest:
            raise RejectedError(f"{name} is taken on for {longest} s at most")
        claims = self._claims(scope)
        if not trusts_job(token_claims[name], claims):
            raise RejectedError(f"{name} does not trust {claims}")
        self.runner.taken.append((self.label, name))
        self.role = name
        self.credentials = {"AWS_REGION": inputs["aws-region"]}

    def _claims(self, scope: Scope) -> dict[str, str]:
        """Return the claims of the job's GitHub token."""
        subject = f"repo:{self.runner.repository}"
        if environment := self.job.get("environment"):
            subject += f":environment:{value_of(environment, scope)}"
        elif self.event.name == "pull_request":
            subject += ":pull_request"
        else:
            subject += f":ref:{self.event.ref}"
        return {"aud": "sts.amazonaws.com", "ref": self.event.ref, "sub": subject}

    def _command(self, step: Mapping[str, Any], scope: Scope) -> tuple[int, dict[str, str]]:
        files = {name: self.place / name for name in ("GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")}
        for file in files.values():
            file.write_text("")
        own = {key: filled(str(value), scope) for key, value in step.get("env", {}).items()}
        script = filled(step["run"], scope)
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script],
            cwd=self.work,
            env=self._environment(own, files),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_STEP_S,
            check=False,
        )
        self.runner.ran.append(Ran(self.label, script, done.returncode, done.stdout + done.stderr))
        self.paths += files["GITHUB_PATH"].read_text().split()
        if "make " in script:
            self.runner.prepare_checkout(self.work)
        outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
        return done.returncode, outputs

    def _environment(self, own: Mapping[str, str], files: Mapping[str, Path]) -> dict[str, str]:
        """Return a clean environment with only the variables that tools need to run."""
        inherited = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        path = os.pathsep.join([str(STAND_INS), *reversed(self.paths), os.environ["PATH"]])
        return {
            **inherited,
            **self.runner.variables,
            "PATH": path,
            "CI": "true",
            "GITHUB_ACTOR": "somebody",
            "GITHUB_REPOSITORY": self.runner.repository,
            "GITHUB_RUN_ID": "42",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_SHA": self.event.sha,
            "STAND_IN_RIGHTS": json.dumps(self._rights()),
            "STAND_IN_LOG": str(self.runner.folder / "stand-ins.jsonl"),
            "STAND_IN_NAMESPACES": str(self.place / "namespaces"),
            "RECORDED_CALLS": str(self.place / "calls.jsonl"),
            "PYTHONPATH": os.pathsep.join([str(RECORDING), str(ROOT)]),
            **{name: str(file) for name, file in files.items()},
            **self.credentials,
            **self.variables,
            **own,
        }

    def _rights(self) -> dict[str, str]:
        """Return the permissions of the job's token: read-only for a pull request from a fork."""
        pull = self.event.payload.get("pull_request") if self.event.name == "pull_request" else None
        may = self.job["permissions"]
        if pull and pull["head"]["repo"]["full_name"] != self.runner.repository:
            may = dict.fromkeys(may, "read")
        return dict(may)

    def _hash_files(self, pattern: str) -> str:
        """Hash files as GitHub does, including empty ones."""
        return "a-hash" if (self.work / pattern).exists() else ""


def recorded_calls(folder: Path) -> list[list[str]]:
    """Return the recorded calls of the stand-ins."""
    file = folder / "stand-ins.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _in_order(jobs: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    waiting = dict(jobs)
    while waiting:
        ready = [
            name for name, job in waiting.items() if not set(listed(job.get("needs", []))) & set(waiting)
        ]
        assert ready, f"jobs wait for each other: {sorted(waiting)}"
        for name in ready:
            yield name, waiting.pop(name)


def listed(value: Sequence[str] | str) -> list[str]:
    """Return a field's values, one or several, as a list."""
    return [value] if isinstance(value, str) else list(value)
