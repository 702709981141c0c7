"""`tritonstack promote`: bring artifacts and images from one environment to the next, by digest."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tritonstack.base.errors import TritonstackError, UsageError, shown_path
from tritonstack.base.revisions import is_committed
from tritonstack.cli.context import Context
from tritonstack.operations.checkout import Checkout
from tritonstack.operations.events import built_now, now, read_events
from tritonstack.operations.promotion.claims import CHANGES, Claim
from tritonstack.operations.promotion.fetching import read_source_manifest
from tritonstack.operations.promotion.gates import (
    DEPLOYMENTS,
    VERDICTS,
    Candidate,
    Gate,
    Shut,
    override_note,
    parse_overrides,
    shut_gates,
    standing,
)
from tritonstack.operations.promotion.plans import (
    Artifact,
    Decision,
    Entry,
    decide,
    lock_after,
    require_source,
    words_of,
    words_of_rivals,
)
from tritonstack.operations.promotion.records import unrecorded
from tritonstack.operations.revisions import change_revision_of
from tritonstack.project.loading import environment_names, template_names
from tritonstack.project.workspace import Workspace
from tritonstack.records.events import Event
from tritonstack.records.lock_writing import attested, lock_text
from tritonstack.records.locks import Built, LockedArtifact, Promoted, figures_of
from tritonstack.records.manifests import Manifest
from tritonstack.spec.environments.promotion import PromotionSpec
from tritonstack.workflows.promotion.copying import (
    Copied,
    Side,
    bytes_to_copy,
    copy_all,
    deploy_foundation,
    has_bucket,
    lacking,
    lock_all,
    record_missing,
)


class GatesShutError(TritonstackError):
    """What an artifact has to have shown, it has not; nothing was changed."""


def promote(  # noqa: PLR0913, PLR0917 - each is an option of the command
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="The environment to promote from.")],
    target: Annotated[str, typer.Argument(help="The environment to promote to.")],
    models: Annotated[list[str] | None, typer.Argument(help="Models; by default all that it serves.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be copied and changed; change nothing.")
    ] = False,
    override_gate: Annotated[
        list[str] | None,
        typer.Option(metavar="GATE=REASON", help="Pass a gate that is shut; the reason is kept for good."),
    ] = None,
    from_profile: Annotated[
        str | None, typer.Option(help="AWS profile for the account promoted from.")
    ] = None,
    to_profile: Annotated[str | None, typer.Option(help="AWS profile for the account promoted to.")] = None,
    bootstrap: Annotated[
        bool, typer.Option("--bootstrap", help="Run `cdk bootstrap` first if the account needs it.")
    ] = False,
) -> None:
    """Copy what one environment runs to the next one's account, and name it in that one's lock.

    The gates of `promotion:` in the environment's file have to be open. Nothing is deployed: commit the lock,
    and let `tritonstack deploy` follow. Interrupted, the same command goes on from where it was.

    Example: tritonstack promote dev prod --dry-run
    """
    state: Context = context.obj
    overrides = parse_overrides(override_gate or ())
    _require_lasting(state, source, target)
    here, there = state.workspace(source), state.workspace(target)
    gates = require_source(here, there)
    decision = decide(here, there, models or ())
    decision.require_possible()
    to = Side(there, state.cloud(there.spec, profile=to_profile))
    run = _Run(state, gates, decision, overrides, to, lacking(to, [*decision.entries, *decision.same]))
    if decision.entries or run.missing:
        cloud = state.cloud_to_read(here.spec, beside=there.spec, cloud=to.cloud, profile=from_profile)
        run.source = Side(here, cloud)
    if dry_run:
        run.tell()
    else:
        run.act(bootstrap=bootstrap)


def _require_lasting(state: Context, *names: str) -> None:
    """Refuse templates: their instances have no lock of their own to promote from or into."""
    for name in names:
        if name in template_names(state.project):
            raise UsageError(
                f"{name!r} is a template: its instances run the lock that it names, and none is promoted to",
                remedy=f"name environments that stay: {', '.join(environment_names(state.project))}",
            )


@dataclass
class _Run:
    """One run of the command."""

    state: Context
    gates: PromotionSpec
    decision: Decision
    overrides: Mapping[Gate, str]
    target: Side
    missing: Sequence[Entry]
    """What has to be copied: of what the lock names already, too."""
    source: Side | None = None
    """None where there is nothing to read there."""

    def tell(self) -> None:
        """What would be done; exit code 1 if a gate is shut."""
        shut = self._shut()
        closed = [gate for gate in shut if gate.gate not in self.overrides]
        sizes = [
            (item, bytes_to_copy(self.source, self.target, item)) for item in self.missing if self.source
        ]
        changes = self._lock_diff(self._promoted(shut))
        lines = [
            *(f"would copy {words_of(item)}: {size / 1e6:.1f} MB" for item, size in sizes),
            *(f"would promote {words_of(item)}" for item in self.decision.entries),
            *words_of_rivals(self.decision.entries),
            *(f"up to date: {words_of(item)}" for item in self.decision.same),
            *self._own_words(),
            *([] if has_bucket(self.target) else [f"would deploy the foundation of {self._name} first"]),
            *map(str, shut),
            *changes,
        ]
        facts = self._facts([], shut) | {
            "dry_run": True,
            "bytes": sum(size for _, size in sizes),
            "lock_diff": "\n".join(changes),
        }
        self.state.output.result(facts, text="\n".join(lines))
        if closed:
            raise typer.Exit(1)

    def act(self, *, bootstrap: bool) -> None:
        """Copy, lock, and write down."""
        self._require_open(self._shut())
        if self.missing or self.decision.entries:
            deploy_foundation(self.state, self.target, bootstrap=bootstrap)
        copied = copy_all(self.state, self.source, self.target, self.missing) if self.source else []
        # Copying may take hours, in which a window closes or somebody refutes what is copied.
        shut = self._shut()
        self._require_open(shut)
        claims: list[Claim] = []
        if self.decision.entries:
            entries, promoted = self.decision.entries, self._promoted(shut)
            claims = lock_all(self.target, self.gates.source, entries, promoted, datetime.now(UTC))
        self._finish_others()
        self.state.output.result(
            self._facts(claims, shut) | {"dry_run": False, "copied": [_copy_facts(one) for one in copied]},
            text="\n".join(self._words(claims, shut)),
        )

    @property
    def _name(self) -> str:
        return self.target.workspace.spec.name

    @property
    def _lock_file(self) -> str:
        return shown_path(self.target.workspace.lock.file)

    def _shut(self) -> list[Shut]:
        """The gates as they are now; what the lock names already has passed them."""
        if not self.decision.entries or self.source is None:
            return []
        candidates = [
            *(
                _candidate(item, read_source_manifest(self.source.artifact(item)), self.source.workspace)
                for item in self.decision.artifacts
            ),
            *(
                Candidate(item.name, item.key, item.entry.digest, image=True, built=item.entry.built)
                for item in self.decision.images
            ),
        ]
        proofs, asked = _proofs(self.source, candidates), self.source.workspace.spec.endpoints
        return shut_gates(
            self.gates,
            candidates,
            proofs,
            datetime.now(UTC),
            asked=asked,
            protected=self.target.workspace.spec.is_protected,
        )

    def _require_open(self, shut: Sequence[Shut]) -> None:
        closed = [gate for gate in shut if gate.gate not in self.overrides]
        if closed:
            names = dict.fromkeys(gate.gate for gate in closed)
            overriding = " ".join(f'--override-gate {name}="<reason>"' for name in names)
            raise GatesShutError(
                "\n".join(map(str, closed)),
                remedy=f"nothing was changed; in an emergency, {overriding}: it is kept with the promotion",
            )

    def _promoted(self, shut: Sequence[Shut]) -> Promoted:
        sides = [self.target, *([self.source] if self.source else [])]
        revision = change_revision_of(*(side.workspace for side in sides))
        return Promoted(
            source=self.gates.source,
            by=Checkout(self.state.project.root).actor(),
            at=now(),
            commit=revision.text,
            uncommitted=revision.recorded,
            note=override_note(shut, self.overrides),
        )

    def _finish_others(self) -> None:
        """Events that promotions did not get to write which were killed after the lock."""
        target = self.target
        if self.decision.same and has_bucket(target):
            history = read_events(target.cloud, target.bucket, kinds=CHANGES)
            record_missing(target, list(unrecorded(target.workspace, self.decision.same, history)), history)

    def _lock_diff(self, promoted: Promoted) -> list[str]:
        workspace: Workspace = self.target.workspace
        after = lock_after(workspace, [(item, promoted) for item in self.decision.entries])
        before = workspace.lock.record
        if after == before:
            return []
        old, new = (lock_text(lock).splitlines() for lock in (before, after))
        return list(difflib.unified_diff(old, new, self._lock_file, self._lock_file, lineterm=""))

    def _own_words(self) -> list[str]:
        own = [f"{model}: {self._name} has built its own" for model in self.decision.own]
        return own + [
            f"{words_of(item)}: left out, for {back.by} took {self._name} back from it at {back.at}; "
            "name its model to promote it all the same"
            for item in self.decision.given_up
            if item.seen and (back := item.seen.rolled_back)
        ]

    def _words(self, claims: Sequence[Claim], shut: Sequence[Shut]) -> list[str]:
        lines = [f"up to date: {words_of(item)}" for item in self.decision.same] + self._own_words()
        for item, claim in zip(self.decision.entries, claims, strict=True):
            words = f"promoted {words_of(item)} from {self.gates.source} to {self._name}"
            if not claim.won:
                words += (
                    f": it is the promotion that {claim.event.by} began at {claim.event.at}, from commit "
                    f"{(claim.event.commit or 'unknown')[:12]}; this lock says the same"
                )
            lines.append(words)
        lines += words_of_rivals(self.decision.entries)
        lines += [f"overridden: {gate}" for gate in shut]
        if not claims:
            return [*lines, f"{self._lock_file} is up to date"]
        names = ", ".join(item.name for item in self.decision.entries)
        return [
            *lines,
            f"next: commit {self._lock_file} and have it reviewed, for example",
            f"  git switch -c promote-to-{self._name}",
            f'  git commit -m "Promote {names} from {self.gates.source} to {self._name}" {self._lock_file}',
            f"and once it is merged, `tritonstack deploy {self._name}` and `tritonstack verify {self._name}`",
        ]

    def _facts(self, claims: Sequence[Claim], shut: Sequence[Shut]) -> dict[str, Any]:
        won = [claim.won for claim in claims] if claims else [None for _ in self.decision.entries]
        return {
            "source": self.gates.source,
            "target": self._name,
            "lock": str(self.target.workspace.lock.file),
            "changed": bool(claims),
            "promoted": [
                {**_entry_facts(item), "replaces": item.seen.digest if item.seen else None, "won": first}
                for item, first in zip(self.decision.entries, won, strict=True)
            ],
            "up_to_date": [_entry_facts(item) for item in self.decision.same],
            "own": list(self.decision.own),
            "given_up": [_entry_facts(item) for item in self.decision.given_up],
            "to_copy": [_entry_facts(item) for item in self.missing],
            "gates": [{**asdict(gate), "overridden": self.overrides.get(gate.gate)} for gate in shut],
        }


def _proofs(source: Side, candidates: Sequence[Candidate]) -> list[Event]:
    """What the gates look at. Each run of `verify` leaves a verdict: only those that count are read."""
    deployed = read_events(source.cloud, source.bucket, kinds=DEPLOYMENTS)
    since = min(filter(None, (standing(one, deployed).since for one in candidates)), default=None)
    verdicts = read_events(source.cloud, source.bucket, kinds=VERDICTS, since=since) if since else []
    return sorted([*deployed, *verdicts], key=lambda event: event.key)


def _candidate(item: Artifact, manifest: Manifest, source: Workspace) -> Candidate:
    entry = item.entry
    # The manifest in the bucket may be of an earlier build of the same bytes, from other test inputs.
    told = (entry.unverified,) if entry.unverified else ()
    unverified = manifest.unverified if manifest.spec_hash == entry.spec_hash else told
    return Candidate(
        item.name,
        item.key,
        entry.digest,
        entry.figures or figures_of(manifest),
        compared=manifest.generation is None,
        unverified=unverified,
        built=_built(item, source),
    )


def _built(item: Artifact, source: Workspace) -> Built | None:
    """Return who built an artifact; with the present commit, if that has the very files it was built from.

    The usual order is to build, and to commit the model together with the lock.
    """
    built, present = item.entry.built, built_now(source)
    if is_committed(present.commit) and item.entry.spec_hash == source.hashes.get(item.name):
        return attested(built, present) or built
    return built


def _entry_facts(item: Entry) -> dict[str, Any]:
    if isinstance(item.entry, LockedArtifact):
        facts = {"model": item.name, "target": item.key, "digest": item.entry.digest}
        return {**facts, "bytes": item.entry.archive_bytes}
    return {"image": item.name, "kind": item.key, "digest": item.entry.digest, "tag": item.entry.tag}


def _copy_facts(copied: Copied) -> dict[str, Any]:
    return {**_entry_facts(copied.item), "proof": copied.proof}
