"""What each foreign exception means to a run: the one table, by class name, so that reading it imports nothing.

Called by `conversation` and `llm`, which hand in how to remove secrets: that comes before any text is cut.

Reasons are those of the condition AdvisorAvailable:

    NotConfigured  nothing was sent: no key, an unknown model string, a missing package
    Unauthorized   the endpoint refused the key
    Rejected       the endpoint refused the request: unknown model, too long a prompt, forbidden content
    RateLimited    the endpoint asked to slow down
    OverBudget     the provider's account is empty, or the round's own reservation is used up
    Unreachable    no connection, a broken one, or a fault of the endpoint
    Timeout        no complete answer in time
    Malformed      an answer that holds no proposal
    Unexpected     anything else: a fault of ours or of a library
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tunewright.adapters.advisor.transcript import printable

_LONGEST_WORDS = 1000
_LONGEST_ADDRESS = 200
_PREFIX = re.compile(r"^(\[[^\]]*\] )?(litellm\.\w+: )?((\w+: )?\w+Exception - )?")
# Raised by the HTTP client before any byte of the request has left.
_NOT_SENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "InvalidURL"})

REASONS: tuple[tuple[str, str, str], ...] = (
    # The DSPy exception (specific ones before their parents), the reason, what to do.
    ("ContextWindowExceededError", "Rejected", "the prompt is longer than the model takes: choose another model"),
    ("LMUnsupportedModelError", "Rejected", "the endpoint has no such model: check model and apiBase"),
    ("LMInvalidRequestError", "Rejected", "check model and maxOutputTokens"),
    ("LMAuthError", "Unauthorized", "check the key"),
    ("LMBillingError", "OverBudget", "the provider's account is used up"),
    ("LMRateLimitError", "RateLimited", "the endpoint asks to slow down"),
    ("LMTimeoutError", "Timeout", "raise timeoutSeconds, or choose a faster model"),
    ("LMServerError", "Unreachable", "the endpoint failed or hung up"),
    ("LMProviderError", "Unreachable", "the endpoint's answer could not be used"),
    ("LMTransportError", "Unreachable", "check apiBase and the network policy"),
    ("LMConfigurationError", "NotConfigured", "check model, apiBase and key"),
    ("LMUnsupportedFeatureError", "NotConfigured", "the model cannot do what was asked: choose another"),
    ("LMCollectionLimitError", "Malformed", "the answer was larger than is collected"),
    ("LMStreamAssemblyError", "Unreachable", "the answer broke off"),
    ("LMLockTimeoutError", "Unexpected", "another process holds the credentials"),
    ("LMError", "Unexpected", "see the operator's log"),
    ("AdapterParseError", "Malformed", "the answer is not the JSON that was asked for"),
    ("ImportError", "NotConfigured", "a package that this provider needs is not installed"),
    ("MemoryError", "Unexpected", "out of memory while reading the answer"),
    ("RecursionError", "Malformed", "the answer is nested too deeply"),
    ("Exception", "Unexpected", "see the operator's log"),
)


@dataclass(frozen=True)
class Failure:
    """Why a call gave no proposals. `text` is the answer that could not be read, if there was one."""

    reason: str
    message: str
    sent: bool = True
    maybe_billed: bool = False
    may_repeat: bool = False
    refused_request: bool = False
    retry_after_seconds: float | None = None
    text: str = ""


def classify(error: BaseException, redact: Callable[[str], str]) -> Failure:
    """Translate a foreign exception."""
    if type(error).__name__ == "AdapterParseError":
        return malformed(redact(str(getattr(error, "lm_response", ""))))
    if (location := _redirected_to(error)) is not None:
        remedy = "redirects are not followed, since the key would go along: set apiBase to the address itself"
        return Failure("Rejected", f"redirected to {printable(redact(location), _LONGEST_ADDRESS)}: {remedy}")
    name, reason, remedy = _row_of(error)
    chain = [type(link).__name__ for link in _links(error)]
    sent = not _NOT_SENT.intersection(chain) and reason != "NotConfigured"
    if not sent and reason == "Timeout":
        reason, remedy = "Unreachable", "check apiBase and the network policy"
    said_so = reason in ("RateLimited", "Unreachable") and _has_status(error, chain)
    return Failure(
        reason=reason,
        message=f"{printable(redact(_words_of(error)), _LONGEST_WORDS)}: {remedy}",
        sent=sent,
        # Who hung up or fell silent after the request was there may have done, and billed, the work.
        maybe_billed=sent and not said_so and reason in ("Timeout", "Unreachable"),
        may_repeat=said_so or (not sent and reason == "Unreachable"),
        refused_request=name == "LMInvalidRequestError",
        retry_after_seconds=getattr(error, "retry_after", None),
    )


def malformed(text: str, fault: str = "the answer is not the JSON that was asked for") -> Failure:
    """Build the failure of an answer that arrived and cannot be used."""
    start = printable(text, 200)
    return Failure("Malformed", f"{fault}; it begins: {start!r}" if start else "the answer is empty", text=text)


def _redirected_to(error: BaseException) -> str | None:
    """Return where an endpoint wanted to send the request on to; None when it did not."""
    answers = [answer for link in _links(error) if (answer := getattr(link, "response", None)) is not None]
    if not any(300 <= (getattr(answer, "status_code", None) or 0) < 400 for answer in answers):
        return None
    named = [dict(getattr(answer, "headers", {})).get("location") for answer in answers]
    return next((str(place) for place in named if place), "nowhere")


def _row_of(error: BaseException) -> tuple[str, str, str]:
    root = next((link for link in _links(error) if isinstance(link, ImportError)), error)
    names = [kind.__name__ for kind in type(root).__mro__]
    return next((row for row in REASONS if row[0] in names), REASONS[-1])


def _has_status(error: BaseException, chain: list[str]) -> bool:
    """Tell whether the endpoint answered with a status of its own; LiteLLM makes one up for a lost connection."""
    return getattr(error, "status", None) is not None and "APIConnectionError" not in chain


def _links(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _words_of(error: BaseException) -> str:
    """Say what happened, with the innermost cause of a failed connection: the outer ones only say "error".

    The libraries put their class names before a message and general advice behind it; both are left out.
    """
    links = list(_links(error))
    said = (str(error) or type(error).__name__).partition("To fix:")[0].partition("Traceback (most recent")[0]
    said = _PREFIX.sub("", said).strip() or type(error).__name__
    root = str(links[-1])
    return f"{said.rstrip('.')} ({root})" if root and "onnection error" in said and root not in said else said
