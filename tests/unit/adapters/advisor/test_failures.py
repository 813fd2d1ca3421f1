"""The whole mapping of foreign exceptions to condition reasons."""

import builtins
import inspect
from typing import Any

import pytest

from tunewright.adapters.advisor import runtime
from tunewright.adapters.advisor.failures import REASONS, Failure, classify

MAPPING = {
    "LMError": "Unexpected",
    "LMTransportError": "Unreachable",
    "LMLockTimeoutError": "Unexpected",
    "LMCollectionLimitError": "Malformed",
    "LMConfigurationError": "NotConfigured",
    "LMNotConfiguredError": "NotConfigured",
    "LMUnsupportedFeatureError": "NotConfigured",
    "LMProviderError": "Unreachable",
    "LMUnexpectedError": "Unexpected",
    "LMStreamAssemblyError": "Unreachable",
    "LMAuthError": "Unauthorized",
    "LMBillingError": "OverBudget",
    "LMRateLimitError": "RateLimited",
    "LMInvalidRequestError": "Rejected",
    "ContextWindowExceededError": "Rejected",
    "LMUnsupportedModelError": "Rejected",
    "LMTimeoutError": "Timeout",
    "LMServerError": "Unreachable",
    "ImportError": "NotConfigured",
    "ModuleNotFoundError": "NotConfigured",
    "MemoryError": "Unexpected",
    "RecursionError": "Malformed",
    "ValueError": "Unexpected",
    "UserWarning": "Unexpected",
}


def foreign_exceptions() -> dict[str, Any]:
    runtime.load()
    from dspy.utils import exceptions

    return {
        name: kind
        for name, kind in inspect.getmembers(exceptions, inspect.isclass)
        if name.startswith(("LM", "Context"))
    }


def unchanged(text: str) -> str:
    return text


@pytest.mark.parametrize("name", MAPPING)
def test_each_foreign_exception_has_its_reason(name: str) -> None:
    kind = foreign_exceptions().get(name) or getattr(builtins, name)
    failure = classify(kind(message="it broke") if name.startswith(("LM", "Context")) else kind("it broke"), unchanged)
    assert failure.reason == MAPPING[name]
    assert failure.message.startswith("it broke: ")


def test_no_exception_of_the_library_is_missing_from_the_mapping() -> None:
    assert set(foreign_exceptions()) <= set(MAPPING)


def test_every_row_can_be_reached() -> None:
    names = [name for name, _, _ in REASONS]
    assert len(set(names)) == len(names)
    known = {**foreign_exceptions(), **vars(builtins)}
    for position, name in enumerate(names):
        if name in known:
            hidden_by = [
                earlier for earlier in names[:position] if earlier in {base.__name__ for base in known[name].__mro__}
            ]
            assert not hidden_by, f"{name} is never reached behind {hidden_by}"


def chained(outer: str, inner: type[Exception], status: int | None = None) -> Failure:
    error = foreign_exceptions()[outer](message="Connection error.", status=status)
    error.__cause__ = inner("[Errno 111] Connection refused")
    return classify(error, unchanged)


def test_a_refused_connection_was_never_sent_and_may_be_repeated() -> None:
    failure = chained("LMServerError", type("ConnectError", (Exception,), {}), status=500)
    assert (failure.sent, failure.may_repeat, failure.maybe_billed) == (False, True, False)
    assert "Connection refused" in failure.message


def test_an_address_that_swallows_connections_is_unreachable() -> None:
    failure = chained("LMTimeoutError", type("ConnectTimeout", (Exception,), {}))
    assert (failure.reason, failure.sent, failure.may_repeat) == ("Unreachable", False, True)


def test_a_connection_lost_after_sending_may_have_been_billed_and_is_not_repeated() -> None:
    failure = chained("LMServerError", type("APIConnectionError", (Exception,), {}), status=500)
    assert (failure.sent, failure.may_repeat, failure.maybe_billed) == (True, False, True)


def test_secrets_are_removed_before_the_text_is_cut() -> None:
    secret = "s" * 50
    failure = classify(ValueError("x" * 980 + secret), lambda text: text.replace(secret, "(hidden)"))
    assert "sss" not in failure.message
