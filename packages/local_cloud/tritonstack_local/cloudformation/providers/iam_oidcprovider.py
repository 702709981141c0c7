"""AWS::IAM::OIDCProvider: whose tokens roles may trust."""

from __future__ import annotations

from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest, ignoring

_NO_TOKENS = "Stored and returned; without a network its keys cannot be fetched, and no token is accepted."


class OidcProvider(Provider):
    """Identifier: the provider's ARN, which is also what `Ref` answers. There is one for each URL."""

    type_name = "AWS::IAM::OIDCProvider"
    kept_only = _NO_TOKENS
    name_property = "Url"
    properties: ClassVar = {
        "ClientIdList": Property(),
        "Tags": Property(members={"Key": None, "Value": None}),
        "ThumbprintList": Property(),
        "Url": Property(create_only=True),
    }
    attribute_names = frozenset({"Arn"})

    def find(self, request: ResourceRequest) -> str | None:
        """Return the ARN of the provider of this URL if there is one."""
        arn = f"arn:aws:iam::{request.stack.account}:oidc-provider/{_host(request)}"
        listed = request.client("iam").list_open_id_connect_providers()["OpenIDConnectProviderList"]
        return arn if arn in {item["Arn"] for item in listed} else None

    def create(self, request: ResourceRequest) -> str:
        """Make the provider."""
        made = request.client("iam").create_open_id_connect_provider(
            Url=request.properties["Url"],
            ClientIDList=request.properties.get("ClientIdList", []),
            ThumbprintList=request.properties.get("ThumbprintList", []),
        )
        return str(made["OpenIDConnectProviderArn"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set the tags."""
        if request.properties.get("Tags"):
            request.client("iam").tag_open_id_connect_provider(
                OpenIDConnectProviderArn=physical_id, Tags=request.properties["Tags"]
            )

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Change audiences and thumbprints; take back tags."""
        iam = request.client("iam")
        named = {"OpenIDConnectProviderArn": physical_id}
        wanted, before = (set(given.properties.get("ClientIdList", [])) for given in (request, previous))
        for audience in sorted(wanted - before):
            iam.add_client_id_to_open_id_connect_provider(ClientID=audience, **named)
        for audience in sorted(before - wanted):
            iam.remove_client_id_from_open_id_connect_provider(ClientID=audience, **named)
        thumbprints = request.properties.get("ThumbprintList", [])
        if thumbprints != previous.properties.get("ThumbprintList", []):
            iam.update_open_id_connect_provider_thumbprint(ThumbprintList=thumbprints, **named)
        kept = {tag["Key"] for tag in request.properties.get("Tags", [])}
        gone = [tag["Key"] for tag in previous.properties.get("Tags", []) if tag["Key"] not in kept]
        if gone:
            iam.untag_open_id_connect_provider(TagKeys=gone, **named)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the provider."""
        with ignoring("NoSuchEntity"):
            request.client("iam").delete_open_id_connect_provider(OpenIDConnectProviderArn=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the ARN."""
        return {"Arn": physical_id}


def _host(request: ResourceRequest) -> str:
    return str(request.properties["Url"]).removeprefix("https://")
