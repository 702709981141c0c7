"""Find and delete the configurations and models that CloudFormation retained when it replaced them.

They have the name of their stack as a tag, so they can be found after the stack is deleted. An endpoint that
SageMaker rolled back serves one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.operate.audit.resources import STACK_TAG, tags_of
from tritonstack.operate.destroy.deletion import Retained
from tritonstack.operate.shared.aws import Cloud, if_present, in_parallel, is_absent, pages
from tritonstack.operate.shared.stacks import DeletionError, environment_stacks, is_marked

KEPT = 2
"""How many replaced configurations of an endpoint are kept."""
_TYPES = ("sagemaker:endpoint-config", "sagemaker:model")
_PAGES = {"PageSize": 100}
_KNOWN = ("InService", "Updating", "SystemUpdating")
"""The states in which an endpoint's description names all that it runs."""

Kind = Literal["EndpointConfig", "Model"]
Lines = Callable[[str], None]


@dataclass(frozen=True)
class ServingResource:
    """A configuration or model with the tag of its stack."""

    kind: Kind
    name: str
    stack: str
    created: datetime
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def key(self) -> str:
        """Its name as in ARNs, which contain it in lower case."""
        return self.name.lower()


@dataclass(frozen=True)
class RunningEndpoint:
    """What an endpoint runs, or may still run if its update is rolled back. Names are in lower case."""

    name: str
    configs: frozenset[str]
    models: frozenset[str]
    data: frozenset[str]
    """S3 URLs of the models' data."""
    has_component: bool = False
    missing: str | None = None
    """Why what it runs is not known: what it names does not exist, or its state is changing or failed."""
    images: frozenset[str] = frozenset()
    """URIs of the models' images."""


def serving_resources(cloud: Cloud, belongs: Callable[[str], bool]) -> list[ServingResource]:
    """Return the configurations and models of stacks, existing or deleted, by the stacks' names."""
    tagged: dict[str, dict[str, str]] = {}
    client = cloud.client("resourcegroupstaggingapi")
    for key in (naming.OWNER_TAG, STACK_TAG):
        for item in pages(
            client,
            "get_resources",
            "ResourceTagMappingList",
            TagFilters=[{"Key": key}],
            ResourceTypeFilters=list(_TYPES),
        ):
            tags = tags_of(item["Tags"])
            if belongs(_stack_of(tags)):
                tagged[item["ResourceARN"]] = tags
    # Tags of deleted resources are listed for a while, and an ARN has no upper-case letters.
    return [*_existing(cloud, "EndpointConfig", tagged), *_existing(cloud, "Model", tagged)]


def _stack_of(tags: Mapping[str, str]) -> str:
    return tags.get(naming.OWNER_TAG) or tags.get(STACK_TAG, "")


def _existing(cloud: Cloud, kind: Kind, tagged: Mapping[str, dict[str, str]]) -> Iterator[ServingResource]:
    sort = "endpoint-config" if kind == "EndpointConfig" else "model"
    arns = {arn for arn in tagged if arn.rpartition(":")[2].startswith(f"{sort}/")}
    if not arns:
        return
    operation = "list_endpoint_configs" if kind == "EndpointConfig" else "list_models"
    for item in pages(cloud.client("sagemaker"), operation, f"{kind}s", PaginationConfig=_PAGES):
        arn = item[f"{kind}Arn"]
        if arn in arns:
            tags = tagged[arn]
            yield ServingResource(kind, item[f"{kind}Name"], _stack_of(tags), item["CreationTime"], tags)


def live_endpoints(cloud: Cloud, base: str | None) -> list[RunningEndpoint]:
    """Return what the endpoints of an environment run; None for all of the account and region."""
    narrowed, prefix = ({"NameContains": base}, f"{base}-") if base else ({}, "")
    sagemaker = cloud.client("sagemaker")
    listed = pages(sagemaker, "list_endpoints", "Endpoints", PaginationConfig=_PAGES, **narrowed)
    names = [item["EndpointName"] for item in listed if item["EndpointName"].startswith(prefix)]
    return [live for live in in_parallel(lambda name: _live(cloud, name), names) if live]


def _live(cloud: Cloud, name: str) -> RunningEndpoint | None:
    sagemaker = cloud.client("sagemaker")
    endpoint = if_present(sagemaker.describe_endpoint, EndpointName=name)
    if endpoint is None:
        return None  # deleted meanwhile
    configs = {endpoint["EndpointConfigName"]}
    if pending := endpoint.get("PendingDeploymentSummary"):
        configs.add(pending["EndpointConfigName"])
    models, data, images = set[str](), set[str](), set[str]()
    missing = None if (status := endpoint["EndpointStatus"]) in _KNOWN else f"is {status}"
    for config in sorted(configs):
        named = models_of(cloud, config)
        missing = missing if named is not None else f"names {config}, which does not exist"
        models |= named or set()
    components, changing = _component_models(sagemaker, name)
    missing = missing or changing
    models |= components
    for model in sorted(models):
        described = if_present(sagemaker.describe_model, ModelName=model)
        missing = missing if described else f"names {model}, which does not exist"
        data |= _values_of(described or {}, "ModelDataUrl")
        images |= _values_of(described or {}, "Image")
    return RunningEndpoint(
        name, _lower(configs), _lower(models), frozenset(data), bool(components), missing, frozenset(images)
    )


def tagged_models(cloud: Cloud, base: str) -> tuple[set[str], set[str]]:
    """Return images and data URLs of all models of an environment's stacks, retained ones included."""
    call, prefix = cloud.client("sagemaker").describe_model, naming.endpoint_stack_name(base, "")
    resources = serving_resources(cloud, lambda stack: stack.startswith(prefix))
    models = [if_present(call, ModelName=item.name) for item in resources if item.kind == "Model"]
    images, data = (
        {value for model in models for value in _values_of(model or {}, key)}
        for key in ("Image", "ModelDataUrl")
    )
    return images, data


def variants_of(sagemaker: Any, config: str) -> dict[str, dict[str, Any]] | None:
    """Return the variants of a configuration by name, shadow included; None if it does not exist."""
    described = if_present(sagemaker.describe_endpoint_config, EndpointConfigName=config)
    if described is None:
        return None
    variants = [*described["ProductionVariants"], *described.get("ShadowProductionVariants", ())]
    return {variant["VariantName"]: variant for variant in variants}


def models_of(cloud: Cloud, config: str) -> set[str] | None:
    """Return the models that a configuration names; None if it does not exist."""
    variants = variants_of(cloud.client("sagemaker"), config)
    if variants is None:
        return None
    return {variant["ModelName"] for variant in variants.values() if "ModelName" in variant}


def _component_models(sagemaker: Any, endpoint: str) -> tuple[set[str], str | None]:
    """Return the models of an endpoint's components, and one that is not in service, if any."""
    listed = pages(sagemaker, "list_inference_components", "InferenceComponents", EndpointNameEquals=endpoint)
    models, changing = set[str](), None
    for item in list(listed):
        component = if_present(
            sagemaker.describe_inference_component, InferenceComponentName=item["InferenceComponentName"]
        )
        if component and (name := component.get("Specification", {}).get("ModelName")):
            models.add(name)
        if component and (status := component["InferenceComponentStatus"]) != "InService":
            changing = f"has {item['InferenceComponentName']}, which is {status}"
    return models, changing


def _values_of(model: Mapping[str, Any], key: str) -> set[str]:
    containers = [model.get("PrimaryContainer") or {}, *model.get("Containers", ())]
    return {container[key] for container in containers if container.get(key)}


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


def delete_replaced(
    cloud: Cloud,
    base: str,
    stacks: Collection[str],
    live: Iterable[RunningEndpoint],
    *,
    before: Iterable[RunningEndpoint] = (),
    on_update: Lines,
) -> list[str]:
    """Delete what the endpoints of these stacks no longer need; return the deleted names.

    Call it only after DescribeEndpoint has confirmed the stacks' configurations. The last replaced
    configurations stay, with their models. So does what ran `before` the deployment: later ones may be of
    failed attempts. So does whatever is newer than what an endpoint runs: it may
    belong to an update that has just begun.
    """
    live, former = list(live), _named(before)
    resources = serving_resources(cloud, lambda stack: stack in stacks)
    surplus: list[ServingResource] = []
    for endpoint in live:
        mine = [resource for resource in resources if resource.stack == _stack_name(base, endpoint)]
        if endpoint.missing is None:
            surplus += _surplus(cloud, mine, endpoint, live, former)
    if not surplus:
        return []
    # An endpoint may have been switched or rolled back meanwhile.
    again = live_endpoints(cloud, base)
    used, unknown = (
        _named(again),
        {_stack_name(base, superseded) for superseded in again if superseded.missing},
    )
    unused = [item for item in surplus if item.key not in used and item.stack not in unknown]
    return _delete(cloud, unused, on_update)


def _named(live: Iterable[RunningEndpoint]) -> frozenset[str]:
    return frozenset[str]().union(*(resource.configs | resource.models for resource in live))


def _stack_name(base: str, endpoint: RunningEndpoint) -> str:
    return naming.endpoint_stack_name(base, endpoint.name.removeprefix(f"{base}-"))


def _surplus(
    cloud: Cloud,
    mine: list[ServingResource],
    endpoint: RunningEndpoint,
    live: list[RunningEndpoint],
    former: Collection[str],
) -> list[ServingResource]:
    configs = [resource for resource in mine if resource.kind == "EndpointConfig"]
    models = [resource for resource in mine if resource.kind == "Model"]
    used = frozenset[str]().union(*(other.configs for other in live))
    unused = _older(configs, endpoint.configs, used)
    surplus = [config for config in unused[:-KEPT] if config.key not in former]
    remaining = [config for config in configs if config not in surplus]
    named = frozenset[str]().union(
        *(other.models for other in live),
        *(_lower(models_of(cloud, config.name) or ()) for config in remaining if len(models) > 1),
    )
    unnamed = _older(models, endpoint.models, named)
    # A component names its model itself, so no replaced configuration does.
    unnamed = unnamed[:-KEPT] if endpoint.has_component else unnamed
    return [*surplus, *(model for model in unnamed if model.key not in former)]


def _older(
    resources: list[ServingResource], running: Collection[str], used: Collection[str]
) -> list[ServingResource]:
    """Return the unused resources that are older than what runs, oldest first."""
    latest = max((item.created for item in resources if item.key in running), default=None)
    unused = [item for item in resources if latest and item.key not in used and item.created < latest]
    return sorted(unused, key=lambda item: item.created)


def orphaned(cloud: Cloud, belongs: Callable[[str], bool]) -> list[ServingResource]:
    """Return the configurations and models that have outlived their stacks.

    Only those with the tags of the stack's environment: another team's stack may have had such a name.
    Stacks are listed after the resources: a stack exists before its resources do.
    """
    resources = [item for item in serving_resources(cloud, belongs) if is_marked(item.stack, item.tags)]
    bases = {base for item in resources if (base := naming.base_of_stack(item.stack))}
    existing = {stack.name for base in bases for stack in environment_stacks(cloud, base)}
    return [item for item in resources if item.stack not in existing]


def orphaned_of(cloud: Cloud, base: str) -> list[ServingResource]:
    """Return those of one environment."""
    return orphaned(cloud, lambda stack: naming.base_of_stack(stack) == base)


def delete_orphaned(
    cloud: Cloud, base: str, *, outlived: Iterable[Retained] = (), on_update: Lines
) -> list[str]:
    """Delete those of one environment that no endpoint uses, of whatever name; return their names.

    `outlived` is from stacks that were just deleted: the index of tags is updated later.
    Raise DeletionError if an endpoint of the environment may run something that it does not name.
    """
    resources = {(item.kind, item.key): item for item in orphaned_of(cloud, base)}
    for item in map(_from_stack, outlived):
        resources.setdefault((item.kind, item.key), item)
    live = live_endpoints(cloud, None) if resources else []
    for resource in live:
        # Endpoints of others run what they name, if it is ours at all.
        if resource.missing and resource.name.startswith(f"{base}-"):
            raise DeletionError(
                f"configurations and models of {base} are kept: endpoint {resource.name} {resource.missing}",
                remedy="wait until the endpoint is in service, or delete it, and rerun the command",
            )
    used = _named(live)
    return _delete(cloud, [item for item in resources.values() if item.key not in used], on_update)


def _from_stack(item: Retained) -> ServingResource:
    kind: Kind = "EndpointConfig" if item.type.endswith("EndpointConfig") else "Model"
    return ServingResource(kind, item.id.rpartition("/")[2], "", datetime.min.replace(tzinfo=UTC))


def _delete(cloud: Cloud, resources: Iterable[ServingResource], on_update: Lines) -> list[str]:
    sagemaker, deleted = cloud.client("sagemaker"), []
    for item in sorted(resources, key=lambda item: (item.kind, item.created)):
        delete = sagemaker.delete_endpoint_config if item.kind == "EndpointConfig" else sagemaker.delete_model
        try:
            delete(**{f"{item.kind}Name": item.name})
        except ClientError as error:
            if not is_absent(error):
                raise
            continue  # deleted by a concurrent run
        on_update(f"{item.name}: {_NOUNS[item.kind]} deleted")
        deleted.append(item.name)
    return deleted


_NOUNS: Mapping[Kind, str] = {"EndpointConfig": "configuration", "Model": "model"}
