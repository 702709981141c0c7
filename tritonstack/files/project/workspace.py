"""One environment with its lock and the models that its endpoints serve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tritonstack.base import naming
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.paths import LOCK_SUFFIX, Project
from tritonstack.base.yaml import Document, FieldPath, load_document
from tritonstack.facts.hardware import InstanceType
from tritonstack.files.endpoint.endpoint import MAIN, MultiModelEndpoint
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.environment.templates import Instance
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.locks import Lock, LockedArtifact, LockedImage
from tritonstack.files.sources.model_hashes import ModelHash


@dataclass(frozen=True)
class ServedModel:
    """A model on an instance type, and the field of the environment file that requests it."""

    model: str
    instance: InstanceType
    place: FieldPath


@dataclass(frozen=True)
class EnvironmentFiles:
    """An environment, its lock, and its models as far as they can be read: what the checks need."""

    project: Project
    environment: Document[EnvironmentSpec]
    lock: Document[Lock]
    models: Mapping[str, Document[ModelSpec]]
    """The models of its endpoints, and their members."""
    instance: Instance | None = None
    """The template instance; None for permanent environments."""

    @property
    def spec(self) -> EnvironmentSpec:
        """The environment."""
        return self.environment.record

    @property
    def lock_owner(self) -> str:
        """The environment whose lock it uses: itself, or the one its template names."""
        return self.lock.file.name.removesuffix(LOCK_SUFFIX)

    @cached_property
    def promotion_source(self) -> str | None:
        """The environment that promotes to its lock; None if its artifacts are built for it."""
        spec = self.spec
        if self.instance is not None:
            try:
                spec = load_document(self.project.environment_file(self.lock_owner), EnvironmentSpec).record
            except InvalidFilesError:
                return None  # reported when that environment is checked
        return spec.promotion.source if spec.promotion else None

    @property
    def lock_command(self) -> str:
        """The command that adds missing artifacts to its lock; builds skip the promotion gates."""
        if source := self.promotion_source:
            # Bootstrapping a local cloud costs nothing; in an AWS account, it is somebody's decision.
            option = "" if self.spec.costs_money else " --bootstrap"
            return f"tritonstack promote {source} {self.lock_owner}{option}"
        # The local cloud may not be running; a deploy publishes what was built on this machine.
        is_local = not (self.spec.costs_money or self.spec.builds_in_account)
        return f"tritonstack build {self.lock_owner}" + (" --no-publish" if is_local else "")

    @property
    def context(self) -> dict[str, str]:
        """The context for `cdk synth`."""
        return self.instance.context if self.instance else {"env": self.spec.name}

    @property
    def cli_arguments(self) -> str:
        """Command arguments that select it: dev, or preview --name pr-1."""
        instance = self.instance
        return f"{instance.template} --name {instance.name}" if instance else self.spec.name

    def artifact_for(self, model: str, instance: InstanceType) -> LockedArtifact | None:
        """Return the locked artifact of a model for an instance type; None if it is not built."""
        return self.lock.record.find(model, self.spec.acceptable_targets(instance))

    def target_for(self, model: str, instance: InstanceType) -> str | None:
        """Return the target of that artifact."""
        return self.lock.record.find_target(model, self.spec.acceptable_targets(instance))

    def image_for(self, name: str, instance: InstanceType) -> LockedImage | None:
        """Return the locked custom image of an endpoint for an instance type; None if it is not built."""
        image = self.spec.endpoints[name].image
        return self.lock.record.images.get(str(image), {}).get("gpu" if instance.gpus else "cpu")

    def serves(self, name: str) -> Iterator[ServedModel]:
        """Yield each model of an endpoint with each of its instance types."""
        endpoint = self.spec.endpoints[name]
        if isinstance(endpoint, MultiModelEndpoint):
            for index, model in enumerate(endpoint.models):
                yield ServedModel(model, endpoint.instance, ("endpoints", name, "models", index))
            return
        for variant in endpoint.variants:
            place: FieldPath = ("endpoints", name, "model")
            if variant.name != MAIN:
                place = ("endpoints", name, variant.name, "model")
            yield ServedModel(variant.model or endpoint.model, variant.instance, place)

    def target_models(self, name: str) -> dict[str, str]:
        """Return the TargetModel of each built model of a multi-model endpoint; nothing for other kinds."""
        endpoint = self.spec.endpoints[name]
        if not isinstance(endpoint, MultiModelEndpoint):
            return {}
        artifacts = {model: self.artifact_for(model, endpoint.instance) for model in endpoint.models}
        return {
            model: naming.target_model(model, artifact.digest)
            for model, artifact in sorted(artifacts.items())
            if artifact is not None
        }

    def made_of(self, model: str) -> Iterator[str]:
        """Yield a model and all its members recursively, each once, as far as their files exist."""
        parts, waiting = set[str](), [model]
        while waiting:
            name = waiting.pop(0)
            if name in self.models and name not in parts:
                parts.add(name)
                yield name
                waiting = [*self.models[name].record.members, *waiting]

    def keeps_answers(self, model: str) -> bool:
        """Check whether a model or one of its members uses the response cache."""
        return any(self.models[name].record.triton.response_cache for name in self.made_of(model))

    def builds_for(self, model: str) -> set[str]:
        """Return the kinds of hardware that a model's artifacts run on: cpu, gpu, or both."""
        kinds = [set[str](self.models[name].record.builds_for) for name in self.made_of(model)]
        return set.intersection(*kinds)


@dataclass(frozen=True)
class Workspace(EnvironmentFiles):
    """One environment with its lock and the models that its endpoints serve, all of them valid."""

    model_hashes: Mapping[str, ModelHash] = field(kw_only=True)

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Hash of each model's build inputs."""
        return {name: model_hash.value for name, model_hash in self.model_hashes.items()}
