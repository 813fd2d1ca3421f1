"""Plain documents over the official asyncio client, with its errors turned into ours. Called by the kube adapters.

The client's model classes are left out: our builders make documents and our readers take them, and the models would
only be converted there and back. Login, TLS and connections are the client's.
"""

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
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
_READ_AGAIN_SECONDS = (0.2, 1.0)
_MOST_THROTTLED = 10
_LONGEST_WAIT_SECONDS = 30.0
"""Kubernetes' own client waits as often (client-go, rest/request.go: maxRetries), and as long as it is told."""


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


Observe = Callable[[str, str, int], None]
"""Told of each request: method, path and HTTP status; 0 where no answer came."""


class NotFound(ClusterError):
    """The object, its namespace or its kind is not there."""


class KubeClient:
    """Reads and writes documents. Raises `Transient`, `Conflict`, `Forbidden`, `NotFound` or `ClusterError`."""

    def __init__(self, api: Any, observe: Observe = lambda *_: None) -> None:  # noqa: ANN401 - the client has no types
        self._api = api
        self._observe = observe
        self._date = 0.0, 0.0

    def now(self) -> float:
        """Return the API server's time in seconds since the epoch, as its latest answer told it.

        What Kubernetes writes into objects is compared with this one: the clock here may be another.
        """
        date, seen = self._date
        return date + time.monotonic() - seen if date else time.time()

    async def find(self, resource: Resource, namespace: str, name: str) -> Document | None:
        """Return an object, or None when it is not there."""
        try:
            return await self._get(_path(resource, namespace, name))
        except NotFound:
            return None

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> list[Document]:
        """Return all matching objects; an empty namespace means all, or a kind without namespaces."""
        query = {"limit": str(_PAGE), "labelSelector": labels, "fieldSelector": fields}
        items: list[Document] = []
        while True:
            page = await self._get(_path(resource, namespace), query)
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
        # In the body: with one the API server reads no query, and would let the Pods of a Job outlive it.
        body = {"propagationPolicy": "Background", **({"preconditions": {"uid": uid}} if uid else {})}
        try:
            await self._call("DELETE", _path(resource, namespace, name), body=body)
        except NotFound:
            return

    async def log(self, namespace: str, pod: str, lines: int) -> str:
        """Return the last lines that a Pod of one container printed."""
        path, query = f"{_path(PODS, namespace, pod)}/log", {"tailLines": str(lines)}
        return str((await self._get(path, query, _text))["text"])

    async def _get(
        self, path: str, query: Mapping[str, str] | None = None, read: Callable[[bytes], Document] | None = None
    ) -> Document:
        """Read, again after a fault that may pass: else one bad answer would cost all that was done before it."""
        for seconds in _READ_AGAIN_SECONDS:
            with contextlib.suppress(Transient):
                return await self._call("GET", path, query=query, read=read)
            await asyncio.sleep(seconds)
        return await self._call("GET", path, query=query, read=read)

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        read: Callable[[bytes], Document] | None = None,
    ) -> Document:
        pairs = [(key, value) for key, value in (query or {}).items() if value]
        headers = {"Accept": "application/json"}
        headers["Content-Type"] = _MERGE_PATCH if method == "PATCH" else "application/json"
        try:
            request = await self._api.param_serialize(
                method, path, query_params=pairs, header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            response = await self._answered(request)
            text = await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            self._observe(method, path, 0)
            raise Transient(f"{method} {path}: {type(error).__name__} {error}") from None
        self._observe(method, path, response.status)
        self._note_date(response.getheader("Date", ""))
        document = (read or _document)(text) if response.status < 300 else _document(text)
        if response.status >= 300:
            raise _refusal(response.status, f"{method} {path}: {document.get('message', response.reason)}")
        return document

    def _note_date(self, text: str) -> None:
        with contextlib.suppress(ValueError):  # a proxy may leave it out
            self._date = parsedate_to_datetime(text).timestamp(), time.monotonic()

    async def _answered(self, request: tuple[Any, ...]) -> Any:  # noqa: ANN401 - the client has no types
        """Send a request, again when the API server says how long to wait: it has done nothing then.

        As Kubernetes' own client does, which also takes a header Retry-After for such a word whatever the status.
        """
        for _ in range(_MOST_THROTTLED):
            response = await self._api.call_api(*request, _request_timeout=_TIMEOUT)
            seconds = _wait_asked_for(response)
            if seconds is None:
                return response
            await response.read()  # lets the connection be used again
            await asyncio.sleep(seconds)
        return await self._api.call_api(*request, _request_timeout=_TIMEOUT)


def _wait_asked_for(response: Any) -> float | None:  # noqa: ANN401 - the client has no types
    """Return how long the API server asks to wait before the same request is sent again; None where it does not."""
    text = response.getheader("Retry-After", "")
    if not text.isdecimal() or not (response.status == 429 or response.status >= 500):
        return None
    return min(float(text), _LONGEST_WAIT_SECONDS)


def _path(resource: Resource, namespace: str, name: str = "") -> str:
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"{resource.prefix}{scope}/{resource.plural}" + (f"/{name}" if name else "")


def _document(text: bytes) -> Document:
    try:
        document = json.loads(text)
    except ValueError:
        return {"message": text[:200].decode(errors="replace")}
    return document if isinstance(document, dict) else {"message": str(document)}


def _text(text: bytes) -> Document:
    return {"text": text.decode(errors="replace")}


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


@contextlib.asynccontextmanager
async def connected(
    kubeconfig: str | None = None, observe: Observe = lambda *_: None, *, heeds_environment: bool = True
) -> AsyncIterator[KubeClient]:
    """Log in with `kubeconfig`, else the Pod's service account, else the usual kubeconfig; raise `ClusterError`.

    An operator does without proxies and ~/.netrc from the environment, as kopf does: before every request aiohttp would
    read that file in one of the threads that plan, and wait until one is free.
    """
    async with await _api(kubeconfig, heeds_environment) as api:
        yield KubeClient(api, observe)


async def _api(kubeconfig: str | None, heeds_environment: bool) -> Any:  # noqa: ANN401 - the client has no types
    """Return the client, logged in. The library raises whatever a file that is no kubeconfig makes it stumble over."""
    logging.getLogger(kubernetes_config.kube_config.__name__).setLevel(logging.ERROR)  # we say it ourselves
    configuration = kubernetes_client.Configuration(client_session_kwargs={"trust_env": heeds_environment})
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
