"""A team whose runs Argo CD takes from git: write or remove files, push, wait for what its Application says.

Used by the tests of Argo CD, with the Applications of `examples/argo-cd`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import yaml

from tests.support.cluster.argo_cd import NAMESPACE, ArgoCD
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.git_repository import GitRepository
from tests.support.cluster.paths import REPOSITORY
from tunewright.adapters.kube.client import EVENTS, KubeClient, Resource

Document = dict[str, Any]
Seen = TypeVar("Seen")

APPLICATIONS = Resource("/apis/argoproj.io/v1alpha1", "applications")
EXAMPLES = REPOSITORY / "examples" / "argo-cd"
DRIFT = "Updated sync status: Synced -> OutOfSync"
# Argo CD tries a failed sync again for some minutes; here a refusal is to be seen at once.
_RETRY = {"limit": 1, "backoff": {"duration": "1s"}}


@dataclass(frozen=True)
class Platform:
    """A cluster with Argo CD and the repository that it reads."""

    cluster: ControlPlane
    argo_cd: ArgoCD
    repository: GitRepository

    def application(self, example: str) -> Document:
        """Return an Application of the examples, for this repository."""
        document: Document = yaml.safe_load((EXAMPLES / f"{example}.yaml").read_text())
        document["spec"]["source"]["repoURL"] = self.repository.url
        return document

    def apply(self, *applications: Document) -> None:
        """Give Applications to Argo CD."""
        self.cluster.kubectl.apply(*applications)

    async def until(
        self, client: KubeClient, name: str, is_wanted: Callable[[Document], object], what: str
    ) -> Document:
        """Return the status of an Application as soon as it is as wanted."""
        status: Document = {}

        async def look() -> bool:
            nonlocal status
            found = await client.find(APPLICATIONS, NAMESPACE, name)
            status = (found or {}).get("status") or {}
            return bool(is_wanted(status))

        try:
            await eventually(look)
        except TimeoutError:
            raise AssertionError(f"{name}: not {what}: {json.dumps(status, indent=1)}\n{self.argo_cd.log()}") from None
        return status


@dataclass(frozen=True)
class Team:
    """One team's Application and its folder of the repository."""

    platform: Platform
    client: KubeClient
    namespace: str

    @property
    def application(self) -> str:
        """Return the name of the Application."""
        return f"{self.namespace}-runs"

    def start(self) -> None:
        """Make the folder, which holds no manifest yet, and the Application."""
        self.write("README.md", "The runs of a team.\n")
        self.platform.repository.commit()
        document = self.platform.application("runs")
        document["metadata"]["name"] = self.application
        document["spec"]["source"]["path"] = self.namespace
        document["spec"]["destination"]["namespace"] = self.namespace
        document["spec"]["syncPolicy"]["retry"] = _RETRY
        self.platform.apply(document)

    def write(self, name: str, content: str | Document) -> None:
        """Write a file: text, or a manifest."""
        file = self.platform.repository.folder / self.namespace / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self.platform.repository.folder / self.namespace / name).unlink()

    async def push(self) -> str:
        """Commit the files and ask Argo CD to look; return the commit."""
        commit = self.platform.repository.commit()
        await self.refresh()
        return commit

    async def push_synced(self) -> Document:
        """Do that and return the Application's status once the commit is synced."""
        commit = await self.push()
        return await self.until(lambda status: is_synced(status, commit), f"synced to {commit}")

    async def refresh(self) -> None:
        """Ask Argo CD to compare now."""
        change = {"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}
        await self.client.patch(APPLICATIONS, NAMESPACE, self.application, change)

    async def until(self, is_wanted: Callable[[Document], object], what: str) -> Document:
        """Return the Application's status as soon as it is as wanted."""
        return await self.platform.until(self.client, self.application, is_wanted, what)

    async def until_health(self, health: str) -> Document:
        """Return the Application's status once it has this health."""
        return await self.until(lambda status: status.get("health", {}).get("status") == health, health)

    async def compared_again(self) -> Document:
        """Return the Application's status after a comparison that begins now."""
        before = (await self.until(bool, "compared"))["reconciledAt"]
        await self.refresh()
        return await self.until(lambda status: status["reconciledAt"] > before, "compared again")

    async def drifts(self) -> int:
        """Return how often the Application went from Synced to OutOfSync, by Argo CD's own events."""
        events = await self.client.list(EVENTS, NAMESPACE, fields=f"involvedObject.name={self.application}")
        return sum(event["message"] == DRIFT for event in events)


def is_synced(status: Document, commit: str) -> bool:
    """Tell whether exactly this commit is in the cluster, and nothing is under way."""
    sync = status.get("sync", {})
    return (sync.get("status"), sync.get("revision"), phase(status)) == ("Synced", commit, "Succeeded")


def phase(status: Document) -> str:
    """Return how far the latest sync is; empty between its request and its start."""
    return str(status.get("operationState", {}).get("phase", ""))


async def eventually(look: Callable[[], Awaitable[Seen]]) -> Seen:
    """Return the first truthy answer; raise `TimeoutError` where none comes in two minutes."""
    for _ in range(1200):
        if seen := await look():
            return seen
        await asyncio.sleep(0.1)
    raise TimeoutError("not within two minutes")
