"""What the operator is told by its environment. The chart sets these; read once at start."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tunewright.adapters.kube.spec.search import LLMSpec
from tunewright.errors import InvalidInput

LLM_VARIABLE = "TUNEWRIGHT_LLM"


@dataclass(frozen=True)
class OperatorSettings:
    """`trial_image`: for runs that name none. `probe_port` 0: no probes. `workers`: runs reconciled at once.

    `namespaced`: kopf was started for some namespaces only, and may have no rights beyond them. `llm`: the operator's
    own endpoint, for runs that name none; its key stays in the environment.
    """

    trial_image: str = ""
    probe_port: int = 8080
    workers: int = 8
    resync_seconds: float = 60.0
    namespaced: bool = False
    llm: LLMSpec | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "OperatorSettings":
        """Read the variables; raise `InvalidInput` naming the one that is wrong."""
        return cls(
            trial_image=environment.get("TUNEWRIGHT_TRIAL_IMAGE", ""),
            probe_port=_whole_number(environment, "TUNEWRIGHT_PROBE_PORT", cls.probe_port),
            workers=max(1, _whole_number(environment, "TUNEWRIGHT_WORKERS", cls.workers)),
            resync_seconds=max(1, _whole_number(environment, "TUNEWRIGHT_RESYNC_SECONDS", int(cls.resync_seconds))),
            namespaced=environment.get("TUNEWRIGHT_NAMESPACED", "") == "true",
            llm=_llm(environment.get(LLM_VARIABLE, "")),
        )


def _llm(text: str) -> LLMSpec | None:
    """Read an endpoint in the words of `spec.llm`, as JSON."""
    if not text.strip():
        return None
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InvalidInput.of(LLM_VARIABLE, text, f"must be JSON: {error}") from None
    spec = LLMSpec.parse(document, LLM_VARIABLE)
    if spec.api_key_secret_ref is not None:
        raise InvalidInput.of(f"{LLM_VARIABLE}.apiKeySecretRef", "", "leave it out: the key has a variable of its own")
    return spec


def _whole_number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, str(default))
    if not text.isdigit():
        raise InvalidInput.of(name, text, "must be a whole number")
    return int(text)
