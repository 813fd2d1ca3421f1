"""The operator's log as JSON objects, one a line, each with the run and the trial that it is about. Called at start.

kopf formats them, and lines of text where JSON is not asked for; run and trial are added to its lines and to ours.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import kopf

from tunewright.adapters.kube.spec.tuning_run import KIND

_TRIAL_NAME = re.compile(r"(?P<run>.+)-(?P<trial>t\d+)-a\d+-[0-9a-f]{6}")
"""How Jobs of trials are named, and their Pods begin."""
_run: ContextVar[str] = ContextVar("run", default="")


@contextmanager
def about(run: str) -> Iterator[None]:
    """Let every line that is logged meanwhile, in tasks and threads begun meanwhile too, name a run."""
    token = _run.set(run)
    try:
        yield
    finally:
        _run.reset(token)


def use_json() -> None:
    """Let this process log JSON from here on, warnings of Python included."""
    kopf.configure(log_format=kopf.LogFormat.JSON)
    logging.captureWarnings(True)
    for handler in logging.getLogger().handlers:
        handler.addFilter(add_fields)


def add_fields(record: logging.LogRecord) -> bool:
    """Add the logger, and run and trial where there are any: what has no run is about the whole operator."""
    fields = {"run": _run.get(), **_named_in(getattr(record, "k8s_ref", {}))}
    record.__dict__.update({"logger": record.name, **{name: text for name, text in fields.items() if text}})
    return True


def _named_in(reference: dict[str, str]) -> dict[str, str]:
    """Return run and trial of the object that one of kopf's lines is about."""
    namespace, name = reference.get("namespace", ""), reference.get("name", "")
    if reference.get("kind") == KIND:
        return {"run": f"{namespace}/{name}"}
    match = _TRIAL_NAME.match(name)
    return {"run": f"{namespace}/{match['run']}", "trial": match["trial"]} if match else {}
