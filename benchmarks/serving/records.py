"""Keep what a search has found, and use it again while the same forms, files, and machine are there."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from benchmarks.peers.forms import Form
from benchmarks.serving.load import Load
from benchmarks.serving.peers import Peer, Trial, search
from benchmarks.serving.report import machine
from tritonstack.base.paths import Project


def best_form(project: Project, peer: tuple[Peer, Load], *, users: int, search_again: bool) -> Form:
    """Return the fastest form of a peer: from the record, or else by a search. Print every trial."""
    tried, load = peer
    record = project.state_dir / "benchmarks" / "forms" / f"{_key(tried, users)}.json"
    print(f"{tried.name}, {users} users: forms", flush=True)
    if record.is_file() and not search_again:
        content = json.loads(record.read_text())
        at, busy = content["machine"]["time"], content["machine"]["load_average"][0]
        print(f"  recorded at {at}, load average {busy:.1f}")
        for trial in content["trials"]:
            _print(trial)
        return _chosen(Form(**content["form"]))
    trials: list[dict[str, Any]] = []

    def note(trial: Trial) -> None:
        trials.append(trial.to_json())
        _print(trials[-1])

    form = search(project, tried, load, users=users, on_trial=note)
    record.parent.mkdir(parents=True, exist_ok=True)
    facts = {"peer": tried.name, "users": users, "machine": machine(), "form": vars(form), "trials": trials}
    record.write_text(json.dumps(facts, indent=2) + "\n")
    return _chosen(form)


def _key(peer: Peer, users: int) -> str:
    """Return a digest of everything that decides a search."""
    facts = machine()
    digest = hashlib.sha256()
    digest.update(
        f"{facts['processor']} {facts['cores']} {facts['libraries']} {users} {peer.trial_s}".encode()
    )
    digest.update(f"{peer.engine} {peer.divisions} {peer.batches}".encode())
    programs = Path(__file__).parents[1].joinpath("peers").glob("*.*")
    for file in (*sorted(programs), *sorted(path for path in peer.folder.rglob("*") if path.is_file())):
        digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _chosen(form: Form) -> Form:
    print(f"  chosen: {form}", flush=True)
    return form


def _print(trial: dict[str, Any]) -> None:
    wrong = "; ".join(trial["wrong"]) or ("" if not trial["errors"] else f"{trial['errors']} errors")
    print(
        f"  {trial['rate']:7.1f} requests/s, p50 {trial['p50_ms']:7.1f} ms, p99 {trial['p99_ms']:8.1f} ms, "
        f"{trial['processor_ms']:6.2f} CPU ms: {trial['name']}{' ' + wrong if wrong else ''}",
        flush=True,
    )
