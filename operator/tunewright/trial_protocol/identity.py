"""Who a trial document belongs to. A report counts only for exactly the attempt that its request named."""

from typing import Annotated, Literal, Self

from pydantic import Field

from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import Value

ProtocolVersion = Literal[1]
PROTOCOL_VERSION: ProtocolVersion = 1
PROTOCOL_MINOR = 1
"""Goes up with each field that is added: whoever knows fewer leaves a newer minor's new fields out.

1: `cutoffStepSeconds` and `stoppedEarly`.
"""
ProtocolMinor = Annotated[int, Field(ge=0, le=10_000)]
TrialKind = Literal["profile", "measure"]


CONFIG_DIGEST_DIGITS = 16
MOST_ATTEMPTS = 99
"""Of one trial, interrupted ones included."""


def config_digest(config: TrainingConfig) -> str:
    """Return the short digest by which documents name a configuration."""
    return config.digest()[:CONFIG_DIGEST_DIGITS]


class TrialIdentity(Value):
    """Run, trial, attempt and configuration. Equal in the request and in its report, or the report is refused."""

    run_uid: str = Field(min_length=1, max_length=64)
    trial: str = Field(pattern=r"^t\d{4,6}$")
    attempt: int = Field(ge=1, le=MOST_ATTEMPTS)
    kind: TrialKind
    config_digest: str = Field(pattern=r"^[0-9a-f]{16}$", description="First 16 digits of the configuration's digest.")

    @classmethod
    def of(cls, run_uid: str, trial: str, attempt: int, kind: TrialKind, config: TrainingConfig) -> Self:
        """Return the identity of one attempt at `config`."""
        return cls(run_uid=run_uid, trial=trial, attempt=attempt, kind=kind, config_digest=config_digest(config))
