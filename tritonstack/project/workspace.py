"""One environment with its lock and the models that its endpoints serve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tritonstack.base.documents import Document, FieldPath
from tritonstack.base.paths import LOCK_SUFFIX, Project
from tritonstack.records.locks import Lock, LockedArtifact, LockedImage
from tritonstack.reference.hardware import InstanceType
from tritonstack.spec.endpoints.endpoint import MAIN, MultiModelEndpoint
from tritonstack.spec.environments.environment import EnvironmentSpec
from tritonstack.spec.environments.templates import Instance
from tritonstack.spec.models.model import ModelSpec


@dataclass(frozen=True)
class ServedModel:
    """A model on a kind of machine, and the field of the environment's file that asks for it."""

    model: str
    instance: InstanceType
    place: FieldPath


@dataclass(frozen=True)
class Workspace:
    """One environment with its lock and the models that its endpoints serve."""

    project: Project
    environment: Document[EnvironmentSpec]
    lock: Document[Lock]
    models: Mapping[str, Document[ModelSpec]]
    """The models that its endpoints serve, and those that they are made of."""
    hashes: Mapping[str, str]
    """What the artifact of each of them depends on, in one hash."""
    instance: Instance | None = None
    """The instance of a template that it is; None for an environment that stays."""

    @property
    def spec(self) -> EnvironmentSpec:
        """The environment itself."""
        return self.environment.record

    @property
    def lock_owner(self) -> str:
        """The environment whose lock it runs: its own, or the one that its template names."""
        return self.lock.file.name.removesuffix(LOCK_SUFFIX)

    @property
    def context(self) -> dict[str, str]:
        """What `cdk synth` has to be told to make its stacks."""
        return self.instance.context if self.instance else {"env": self.spec.name}

    @property
    def words(self) -> str:
        """What a command has to be told to mean it: dev, or preview --name pr-1."""
        instance = self.instance
        return f"{instance.template} --name {instance.name}" if instance else self.spec.name

    def artifact_for(self, model: str, instance: InstanceType) -> LockedArtifact | None:
        """The locked artifact of a model that a machine can run, if it has been built."""
        return self.lock.record.find(model, self.spec.acceptable_targets(instance))

    def target_for(self, model: str, instance: InstanceType) -> str | None:
        """The target of that artifact."""
        return self.lock.record.find_target(model, self.spec.acceptable_targets(instance))

    def image_for(self, name: str, instance: InstanceType) -> LockedImage | None:
        """The locked image of the project's own that an endpoint runs on a machine, if it has been built."""
        image = self.spec.endpoints[name].image
        return self.lock.record.images.get(str(image), {}).get("gpu" if instance.gpus else "cpu")

    def serves(self, name: str) -> Iterator[ServedModel]:
        """Every model that an endpoint serves, on each kind of machine it serves it on."""
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

    def made_of(self, model: str) -> Iterator[str]:
        """A model and all that it is made of, however deep, as far as there are files of them."""
        if model in self.models:
            yield model
            for member in self.models[model].record.members:
                yield from self.made_of(member)

    def keeps_answers(self, model: str) -> bool:
        """Whether a model, or one that it is made of, asks for a response cache."""
        spec = self.models[model].record
        return spec.triton.response_cache or any(map(self.keeps_answers, spec.members))

    def builds_for(self, model: str) -> set[str]:
        """The kinds of machine that a model's artifacts run on: cpu, gpu or both."""
        spec = self.models[model].record
        kinds: set[str] = set(spec.builds_for)
        for member in spec.members:
            kinds &= self.builds_for(member)
        return kinds
