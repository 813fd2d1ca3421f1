"""The one door to DSPy and LiteLLM: sets their environment, then imports them. Takes seconds; called from a thread.

LiteLLM fetches a price list from the network when it is imported, unless told otherwise before. DSPy's response cache
is never read or written (`cache=False`), so no cache folder is made.
"""

import atexit
import importlib
import os
import threading
import warnings
from types import ModuleType
from typing import Any

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
    _refuse_redirects(settings)
    return program


def _refuse_redirects(settings: dict[str, Any]) -> None:
    """Let no endpoint pass a prompt, and the key in its headers, on to another address.

    LiteLLM follows redirects and offers no switch: OpenAI's protocol goes through `client_session`, every other one
    through handlers of its own, of which the last argument is `follow_redirects`.
    """
    if settings["client_session"] is not None:
        return
    import httpx

    handlers = importlib.import_module("litellm.llms.custom_httpx.http_handler")
    client = httpx.Client(verify=handlers.get_ssl_configuration(), follow_redirects=False)
    atexit.register(client.close)
    settings["client_session"] = client
    defaults = handlers.HTTPHandler.__init__.__defaults__
    handlers.HTTPHandler.__init__.__defaults__ = (*defaults[:-1], False)


def _quieten() -> None:
    """Ignore what these libraries warn about their own insides. Repeating this adds nothing.

    Not `catch_warnings`: it is not safe in threads, and some warnings come with the first call, not with the import.
    """
    warnings.filterwarnings("ignore", module=r"(dspy|litellm|openai)(\.|$)")
    warnings.filterwarnings("ignore", message=r".*`ReadOnly` qualifier", category=UserWarning)


def _not_installed(error: ImportError) -> str:
    return f"DSPy and LiteLLM are not usable here ({error}): install tunewright[llm], or explore without an LLM"
