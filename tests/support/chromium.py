"""A headless Chromium, driven over its DevTools protocol: loads a page, listens, takes pictures, runs scripts.

Any `chromium` or `google-chrome` on the PATH will do. Protocol: https://chromedevtools.github.io/devtools-protocol.
"""

import asyncio
import base64
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_START_SECONDS, _ANSWER_SECONDS = 60.0, 60.0
_LARGEST_MESSAGE = 2**26


def chromium_path() -> str | None:
    """Return the browser that there is."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@dataclass
class Page:
    """One tab. `requests` and `complaints` are what it asked the network for and what its console said."""

    socket: aiohttp.ClientWebSocketResponse
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    _number: int = 0
    _loaded: bool = False

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self._number += 1
        await self.socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = await self._next()
            if message.get("id") == self._number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result

    async def load(self, file: Path, *, width: int, scheme: Literal["light", "dark"]) -> None:
        """Open a file in a window of this width, 2:1 pixels, under this colour scheme."""
        for domain in ("Page", "Network", "Runtime", "Log"):
            await self.call(f"{domain}.enable")
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=media)
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self._loaded = False
        await self.call("Page.navigate", url=file.as_uri())
        while not self._loaded:
            await self._next()

    async def evaluate(self, expression: str) -> Any:
        """Run a script, wait for its promise, and return its value."""
        found = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise AssertionError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    async def screenshot(self) -> bytes:
        """Return the whole page as PNG."""
        found = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(found["data"])

    async def _next(self) -> dict[str, Any]:
        message: dict[str, Any] = await asyncio.wait_for(self.socket.receive_json(), _ANSWER_SECONDS)
        self._hear(message.get("method", ""), message.get("params", {}))
        return message

    def _hear(self, method: str, said: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
        elif method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Log.entryAdded":
            self.complaints.append(said["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(str(said["args"]))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(said["exceptionDetails"]))
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append(f"dialog: {said['message']}")


@contextlib.asynccontextmanager
async def opened_page(browser: str) -> AsyncIterator[Page]:
    """Start the browser, open a tab, and end both afterwards."""
    with tempfile.TemporaryDirectory(prefix="tunewright-chromium-", ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            browser,
            "--headless",
            "--no-sandbox" if os.geteuid() == 0 else "--disable-breakpad",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--remote-debugging-port=0",
            f"--user-data-dir={folder}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            port = await asyncio.wait_for(_port(process), _START_SECONDS)
            draining = asyncio.create_task(_drain(process))
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                    tabs = await answer.json(content_type=None)
                address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
                async with session.ws_connect(address, max_msg_size=_LARGEST_MESSAGE) as socket:
                    yield Page(socket)
            draining.cancel()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def _port(process: asyncio.subprocess.Process) -> int:
    """Read the port from the line that the browser prints when it listens."""
    assert process.stderr is not None
    said = []
    async for line in process.stderr:
        text = line.decode(errors="replace")
        said.append(text)
        if text.startswith("DevTools listening on ws://"):
            return int(text.split("//")[1].split("/")[0].rpartition(":")[2])
    raise AssertionError("the browser did not start: " + "".join(said[-20:]))


async def _drain(process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None
    async for _ in process.stderr:
        pass
