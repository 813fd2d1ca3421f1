"""The one door to DSPy and LiteLLM: sets their environment, then imports them. Takes seconds; called from a thread.

LiteLLM fetches a price list from the network when it is imported, unless told otherwise before. DSPy's response cache
is never read or written (`cache=False`), so no cache folder is made.
"""

import importlib
import os
import threading
import warnings
from types import ModuleType

from tunewright.errors import AdvisorError

_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # the price list inside the package: no network at import
    "LITELLM_TELEMETRY": "False",
    "LITELLM_LOG": "ERROR",
}
_lock = threading.Lock()


def load() -> ModuleType:
    """Import everything that a call needs and return `program`; raise `AdvisorError` where it is not installed."""
    with _lock:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        _quieten()
        try:
            litellm = importlib.import_module("litellm")
            program = importlib.import_module("tunewright.adapters.advisor.program")
        except ImportError as error:
            raise AdvisorError("NotConfigured", _not_installed(error)) from None
    settings = vars(litellm)
    settings["telemetry"] = False
    settings["suppress_debug_info"] = True  # it prints advice to stdout on every failed call otherwise
    return program


def _quieten() -> None:
    """Ignore what these libraries warn about their own insides. Repeating this adds nothing.

    Not `catch_warnings`: it is not safe in threads, and some warnings come with the first call, not with the import.
    """
    warnings.filterwarnings("ignore", module=r"(dspy|litellm|openai)(\.|$)")
    warnings.filterwarnings("ignore", message=r".*`ReadOnly` qualifier", category=UserWarning)


def _not_installed(error: ImportError) -> str:
    return f"DSPy and LiteLLM are not usable here ({error}): install tunewright[llm], or explore without an LLM"
