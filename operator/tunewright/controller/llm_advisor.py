"""An advisor whose key comes from a Secret of the run's namespace, read anew for each question. Made by `wiring`.

A run without such a Secret is answered by the operator's own endpoint or by none: the operator's key never goes to an
address that a user chose, and a user who chooses the model chooses the provider's address with it.

A Secret that appears, changes or goes away takes effect with the next round; what stands in the way becomes the reason
of a failed advice, and so of the condition AdvisorAvailable.
"""

import base64
from collections.abc import Mapping

from tunewright.adapters.advisor.llm import LLMAdvisor
from tunewright.adapters.advisor.settings import LLMConnection
from tunewright.adapters.kube.client import SECRETS, KubeClient
from tunewright.adapters.kube.spec.base import KeyRef
from tunewright.adapters.kube.spec.search import LLMSpec
from tunewright.errors import AdvisorError, ClusterError, Forbidden, InvalidInput
from tunewright.planner.records import Advice, AdviceUsage
from tunewright.ports import AdviceRequest, Clock


class SecretKeyAdvisor:
    """Implements `ports.Advisor`."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        spec: LLMSpec,
        environment: Mapping[str, str],
        clock: Clock,
        own: LLMSpec | None = None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._spec = spec
        self._environment = environment
        self._clock = clock
        self._own = own
        self._advisor: LLMAdvisor | None = None
        self._connected_to: LLMConnection | None = None

    async def ask(self, request: AdviceRequest) -> Advice:
        """Ask the endpoint; without a usable key, return a failed advice that spent nothing."""
        try:
            connection = await self._connection()
        except AdvisorError as error:
            return Advice(
                round=request.round,
                outcome="failed",
                condition_reason=error.reason,
                message=str(error)[:2000],
                model=self._spec.model,
                usage=AdviceUsage(calls=0),
                at=self._clock.now(),
            )
        if self._advisor is None or connection != self._connected_to:
            self._advisor, self._connected_to = LLMAdvisor(connection, now=self._clock.now), connection
        return await self._advisor.ask(request)

    async def _connection(self) -> LLMConnection:
        document, reference = self._spec.connection(), self._spec.api_key_secret_ref
        try:
            if reference is not None:
                return LLMConnection.parse({**document, "api_key": await self._key(reference)}, "spec.llm")
            document["api_base"] = self._own_base()
            return LLMConnection.from_environment(document, self._environment, "spec.llm")
        except InvalidInput as error:
            raise AdvisorError("NotConfigured", str(error)) from None

    def _own_base(self) -> str | None:
        """Return the address of the operator's own endpoint, if that is what the run asks for."""
        spec, own = self._spec, self._own
        if own is not None and spec.model == own.model and spec.api_base in (None, own.api_base):
            return own.api_base
        other = f"leave spec.llm out for the operator's own endpoint, {own.model}" if own else "the operator has no own"
        raise AdvisorError("NotConfigured", f"spec.llm.apiKeySecretRef: {spec.model} needs a key of yours, or {other}")

    async def _key(self, reference: KeyRef) -> str:
        place = f"spec.llm.apiKeySecretRef: {self._namespace}/{reference.name}, key {reference.key}"
        try:
            secret = await self._client.find(SECRETS, self._namespace, reference.name)
        except Forbidden:
            raise AdvisorError("NotGranted", f"{place}: grant the operator get on this Secret") from None
        except ClusterError as error:
            raise AdvisorError("Unreachable", f"{place}: {error}") from None
        encoded = (secret or {}).get("data", {}).get(reference.key)
        if encoded is None:
            raise AdvisorError("SecretNotFound", f"{place}: does not exist: create it")
        try:
            return base64.b64decode(encoded).decode()
        except ValueError:
            raise AdvisorError("NotConfigured", f"{place}: is not text") from None
