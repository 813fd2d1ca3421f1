"""What the operator is told by its environment. The chart sets these; read once at start."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from tunewright.adapters.kube.spec.search import LLMSpec
from tunewright.adapters.kube.spec.site import Site
from tunewright.errors import InvalidInput

LLM_VARIABLE = "TUNEWRIGHT_LLM"
SITE_VARIABLE = "TUNEWRIGHT_SITE"


LogFormat = Literal["text", "json"]


@dataclass(frozen=True)
class OperatorSettings:
    """`trial_image`: for runs that name none. `probe_port` 0: no probes. `workers`: runs reconciled at once.

    `namespaces`: those that kopf was started for, without rights beyond them; none: the whole cluster. `metrics_port`
    0: no metrics. `llm`: the operator's own endpoint, for runs that name none; its key stays in the environment.
    `site`: what holds for all runs.
    """

    trial_image: str = ""
    probe_port: int = 8080
    workers: int = 8
    resync_seconds: float = 60.0
    namespaces: tuple[str, ...] = ()
    llm: LLMSpec | None = None
    site: Site = field(default_factory=Site)
    metrics_port: int = 0
    log_format: LogFormat = "text"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "OperatorSettings":
        """Read the variables; raise `InvalidInput` naming the one that is wrong."""
        return cls(
            trial_image=environment.get("TUNEWRIGHT_TRIAL_IMAGE", ""),
            probe_port=_whole_number(environment, "TUNEWRIGHT_PROBE_PORT", cls.probe_port),
            workers=max(1, _whole_number(environment, "TUNEWRIGHT_WORKERS", cls.workers)),
            resync_seconds=max(1, _whole_number(environment, "TUNEWRIGHT_RESYNC_SECONDS", int(cls.resync_seconds))),
            namespaces=tuple(name for name in environment.get("TUNEWRIGHT_NAMESPACES", "").split(",") if name),
            llm=_llm(environment.get(LLM_VARIABLE, "")),
            site=Site.parse(_json(environment.get(SITE_VARIABLE, "{}"), SITE_VARIABLE), SITE_VARIABLE),
            metrics_port=_whole_number(environment, "TUNEWRIGHT_METRICS_PORT", cls.metrics_port),
            log_format=_log_format(environment.get("TUNEWRIGHT_LOG_FORMAT", cls.log_format)),
        )

    @property
    def namespaced(self) -> bool:
        """Whether only some namespaces are served."""
        return bool(self.namespaces)


def _log_format(text: str) -> LogFormat:
    known: tuple[LogFormat, ...] = get_args(LogFormat)
    for name in known:
        if name == text:
            return name
    raise InvalidInput.of("TUNEWRIGHT_LOG_FORMAT", text, f"must be one of {', '.join(known)}")


def _llm(text: str) -> LLMSpec | None:
    """Read an endpoint in the words of `spec.llm`, as JSON."""
    if not text.strip():
        return None
    spec = LLMSpec.parse(_json(text, LLM_VARIABLE), LLM_VARIABLE)
    if spec.api_key_secret_ref is not None:
        raise InvalidInput.of(f"{LLM_VARIABLE}.apiKeySecretRef", "", "leave it out: the key has a variable of its own")
    return spec


def _json(text: str, variable: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidInput.of(variable, text, f"must be JSON: {error}") from None


def _whole_number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, str(default))
    if not text.isdigit():
        raise InvalidInput.of(name, text, "must be a whole number")
    return int(text)
