"""A reverse proxy before an API server that does harm to chosen requests. Called by the tests of faults.

The operator's kubeconfig names the proxy, so only the operator sees its faults. A plan looks at each request and
returns what happens to it; without a plan everything is passed on as it is, watches included.
"""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.kubeconfig import write_kubeconfig
from tests.support.cluster.ports import free_ports

_OF_ONE_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}


@dataclass(frozen=True)
class Call:
    """One request as it came, and the ways to go on with it."""

    method: str
    path: str
    text: str
    is_watch: bool
    request: web.BaseRequest
    upstream: Callable[[], contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]]

    @property
    def is_write(self) -> bool:
        return self.method != "GET"

    async def passed(self) -> web.StreamResponse:
        """Pass the request on and the answer back, as it comes."""
        async with self.upstream() as found:
            answer = await self._begin(found)
            async for piece in found.content.iter_any():
                await answer.write(piece)
            await answer.write_eof()
            return answer

    async def done_unseen(self) -> None:
        """Let the API server do it, and keep the answer."""
        async with self.upstream() as found:
            await found.read()

    async def watched(self, seconds: float) -> web.StreamResponse:
        """Pass a watch on for a while and leave it open, for the caller to end."""
        async with self.upstream() as found:
            answer = await self._begin(found)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    async for piece in found.content.iter_any():
                        await answer.write(piece)
            return answer

    def hang_up(self) -> None:
        """Close the connection in the middle of whatever it is in."""
        if self.request.transport is not None:
            self.request.transport.abort()

    async def _begin(self, found: aiohttp.ClientResponse) -> web.StreamResponse:
        headers = {k: v for k, v in found.headers.items() if k.lower() not in _OF_ONE_CONNECTION}
        answer = web.StreamResponse(status=found.status, headers=headers)
        await answer.prepare(self.request)
        return answer


Harm = Callable[[Call], Awaitable[web.StreamResponse]]
Plan = Callable[[Call], Harm | None]


@dataclass
class FaultProxy:
    """`plan` may be replaced at any time. `harmed` counts the requests that it chose."""

    url: str
    plan: Plan = lambda _: None
    harmed: int = 0
    _runner: web.ServerRunner = field(init=False)
    _site: web.TCPSite | None = None
    _port: int = field(default_factory=lambda: free_ports(1)[0])
    _session: aiohttp.ClientSession = field(init=False)
    _open: set[asyncio.Transport] = field(default_factory=set)

    @property
    def own_url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def start(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        server = web.Server(self._handle, handler_cancellation=True)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        await self.accept()

    async def accept(self) -> None:
        """Listen, again after `refuse`."""
        self._site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await self._site.start()

    async def refuse(self) -> None:
        """Refuse connections, and end those that are open, as a machine does that goes away."""
        if self._site is not None:
            await self._site.stop()
        for transport in self._open:
            transport.abort()

    async def stop(self) -> None:
        await self.refuse()
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        call = await self._call(request)
        transport = request.transport
        if transport is None:
            return web.Response()
        self._open.add(transport)
        try:
            harm = self.plan(call)
            if harm is None:
                return await call.passed()
            self.harmed += 1
            return await harm(call)
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            call.hang_up()
            return web.Response(status=502)
        finally:
            self._open.discard(transport)

    async def _call(self, request: web.BaseRequest) -> Call:
        body = await request.read()
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _OF_ONE_CONNECTION}

        def upstream() -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
            url = self.url + request.path_qs
            return self._session.request(request.method, url, headers=headers, data=body or None, allow_redirects=False)

        is_watch = request.query.get("watch") == "true"
        return Call(request.method, request.path, body.decode(errors="replace"), is_watch, request, upstream)


@asynccontextmanager
async def fault_proxy(cluster: ControlPlane, folder: Path) -> AsyncIterator[tuple[FaultProxy, Path]]:
    """Yield a proxy before `cluster`, and a kubeconfig that leads through it."""
    authority = cluster.workspace.folder / "certificates" / "apiserver.crt"
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(authority)), limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
        proxy = FaultProxy(cluster.url)
        await proxy.start(session)
        try:
            kubeconfig = write_kubeconfig(folder / "proxied.kubeconfig", proxy.own_url, b"", cluster.token)
            yield proxy, kubeconfig
        finally:
            await proxy.stop()


def refusing(status: int, reason: str, **headers: str) -> Harm:
    """Answer with a refusal of the API server's form, and do nothing."""

    async def harm(_: Call) -> web.StreamResponse:
        return _refusal(status, reason, headers)

    return harm


def losing_the_answer(status: int = 500) -> Harm:
    """Do what was asked, and answer that it failed."""

    async def harm(call: Call) -> web.StreamResponse:
        await call.done_unseen()
        return _refusal(status, "InternalError", {})

    return harm


def hanging_up(*, after: bool) -> Harm:
    """Close the connection instead of an answer, before or after what was asked is done."""

    async def harm(call: Call) -> web.StreamResponse:
        if after:
            await call.done_unseen()
        call.hang_up()
        return web.Response()

    return harm


def slow(seconds: float) -> Harm:
    """Take a while."""

    async def harm(call: Call) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await call.passed()

    return harm


def dropping_the_watch(seconds: float) -> Harm:
    """Cut a watch in the middle."""

    async def harm(call: Call) -> web.StreamResponse:
        answer = await call.watched(seconds)
        call.hang_up()
        return answer

    return harm


def ending_the_watch_with(code: int, reason: str, seconds: float) -> Harm:
    """Write an error into a watch, as the API server does when it no longer has the version that was asked for."""

    async def harm(call: Call) -> web.StreamResponse:
        answer = await call.watched(seconds)
        event = {"type": "ERROR", "object": _status(code, reason)}
        await answer.write(json.dumps(event).encode() + b"\n")
        await answer.write_eof()
        return answer

    return harm


def _refusal(status: int, reason: str, headers: Mapping[str, str]) -> web.StreamResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.json_response(_status(status, reason), status=status, headers=named)


def _status(code: int, reason: str) -> dict[str, object]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"{reason}, says the test",
        "reason": reason,
        "code": code,
    }
