"""Plain documents over the official asyncio client, with its errors turned into ours. Called by the kube adapters.

The client's model classes are left out: our builders make documents and our readers take them, and the models would
only be converted there and back. Login, TLS and connections are the client's.
"""

import json
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from kubernetes.aio import client as kubernetes_client
from kubernetes.aio import config as kubernetes_config

from tunewright.adapters.kube.spec.tuning_run import GROUP, PLURAL, VERSION
from tunewright.errors import ClusterError, Conflict, Forbidden, Transient, printable

Document = dict[str, Any]

_PAGE = 500
_TIMEOUT = aiohttp.ClientTimeout(total=30, connect=10)
_MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True)
class Resource:
    """One kind of object: where the API keeps it."""

    prefix: str
    plural: str


CONFIG_MAPS = Resource("/api/v1", "configmaps")
EVENTS = Resource("/api/v1", "events")
NODES = Resource("/api/v1", "nodes")
PODS = Resource("/api/v1", "pods")
SECRETS = Resource("/api/v1", "secrets")
SERVICES = Resource("/api/v1", "services")
JOBS = Resource("/apis/batch/v1", "jobs")
TUNING_RUNS = Resource(f"/apis/{GROUP}/{VERSION}", PLURAL)


class NotFound(ClusterError):
    """The object, its namespace or its kind is not there."""


class KubeClient:
    """Reads and writes documents. Raises `Transient`, `Conflict`, `Forbidden`, `NotFound` or `ClusterError`."""

    def __init__(self, api: Any) -> None:  # noqa: ANN401 - the client has no types
        self._api = api

    async def find(self, resource: Resource, namespace: str, name: str) -> Document | None:
        """Return an object, or None when it is not there."""
        try:
            return await self._call("GET", _path(resource, namespace, name))
        except NotFound:
            return None

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> list[Document]:
        """Return all matching objects; an empty namespace means all, or a kind without namespaces."""
        query = {"limit": str(_PAGE), "labelSelector": labels, "fieldSelector": fields}
        items: list[Document] = []
        while True:
            page = await self._call("GET", _path(resource, namespace), query=query)
            items.extend(page.get("items") or ())
            query["continue"] = page.get("metadata", {}).get("continue", "")
            if not query["continue"]:
                return items

    async def create(self, resource: Resource, namespace: str, document: Mapping[str, Any]) -> Document:
        """Create an object."""
        return await self._call("POST", _path(resource, namespace), body=document)

    async def patch(
        self, resource: Resource, namespace: str, name: str, patch: Mapping[str, Any], *, subresource: str = ""
    ) -> Document:
        """Merge `patch` into an object."""
        path = _path(resource, namespace, name) + (f"/{subresource}" if subresource else "")
        return await self._call("PATCH", path, body=patch)

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str = "") -> None:
        """Delete an object and what it owns, in the background; one that is not there is fine.

        With `uid` only that very object: another of its name is a `Conflict`.
        """
        body = {"preconditions": {"uid": uid}} if uid else None
        query = {"propagationPolicy": "Background"}
        try:
            await self._call("DELETE", _path(resource, namespace, name), query=query, body=body)
        except NotFound:
            return

    async def _call(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> Document:
        pairs = [(key, value) for key, value in (query or {}).items() if value]
        headers = {"Accept": "application/json"}
        headers["Content-Type"] = _MERGE_PATCH if method == "PATCH" else "application/json"
        try:
            request = await self._api.param_serialize(
                method, path, query_params=pairs, header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            response = await self._api.call_api(*request, _request_timeout=_TIMEOUT)
            text = await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Transient(f"{method} {path}: {type(error).__name__} {error}") from None
        document = _document(text)
        if response.status >= 300:
            raise _refusal(response.status, f"{method} {path}: {document.get('message', response.reason)}")
        return document


def _path(resource: Resource, namespace: str, name: str = "") -> str:
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"{resource.prefix}{scope}/{resource.plural}" + (f"/{name}" if name else "")


def _document(text: bytes) -> Document:
    try:
        document = json.loads(text)
    except ValueError:
        return {"message": text[:200].decode(errors="replace")}
    return document if isinstance(document, dict) else {"message": str(document)}


def _refusal(status: int, message: str) -> ClusterError:
    if status == 404:
        return NotFound(message)
    if status == 409:
        return Conflict(message)
    if status in (401, 403):
        return Forbidden(message)
    if status == 429 or status >= 500:
        return Transient(message)
    return ClusterError(message)


@asynccontextmanager
async def connected(kubeconfig: str | None = None) -> AsyncIterator[KubeClient]:
    """Log in with `kubeconfig`, else the Pod's service account, else the usual kubeconfig; raise `ClusterError`."""
    async with await _api(kubeconfig) as api:
        yield KubeClient(api)


async def _api(kubeconfig: str | None) -> Any:  # noqa: ANN401 - the client has no types
    """Return the client, logged in. The library raises whatever a file that is no kubeconfig makes it stumble over."""
    logging.getLogger(kubernetes_config.kube_config.__name__).setLevel(logging.ERROR)  # we say it ourselves
    configuration = kubernetes_client.Configuration()
    try:
        await _log_in(configuration, kubeconfig)
        return kubernetes_client.ApiClient(configuration)
    except Exception as error:
        where = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
        reason = printable(f"{type(error).__name__}: {error}")
        raise ClusterError(
            f"no cluster: neither a service account nor a usable kubeconfig in {where} ({reason}): set KUBECONFIG"
        ) from None


async def _log_in(configuration: Any, kubeconfig: str | None) -> None:  # noqa: ANN401 - the client has no types
    if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        kubernetes_config.load_incluster_config(client_configuration=configuration)
        return
    where = kubeconfig or os.environ.get("KUBECONFIG")
    await kubernetes_config.load_kube_config(config_file=where, client_configuration=configuration)
