"""moto changes no audiences of an OpenID Connect provider that exists; IAM does."""

from __future__ import annotations

from typing import Any

from moto.core.responses import EmptyResult


def add_client_id(response: Any) -> EmptyResult:
    """Answer AddClientIDToOpenIDConnectProvider; one that is there already is no fault."""
    clients, client = _asked(response)
    if client not in clients:
        clients.append(client)
    return EmptyResult()


def remove_client_id(response: Any) -> EmptyResult:
    """Answer RemoveClientIDFromOpenIDConnectProvider; one that is gone already is no fault."""
    clients, client = _asked(response)
    if client in clients:
        clients.remove(client)
    return EmptyResult()


def _asked(response: Any) -> tuple[list[str], str]:
    provider = response.backend.get_open_id_connect_provider(response._get_param("OpenIDConnectProviderArn"))
    return provider.client_id_list, response._get_param("ClientID")
