"""`tunewright rerun LEDGER --llm MODEL`: the same search with another LLM, or none, on the reports that exist."""

import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tunewright
from tunewright.adapters.advisor import LLMAdvisor, LLMConnection
from tunewright.adapters.clock import SystemClock
from tunewright.adapters.ledger.file import read_ledger, read_ledger_with_head
from tunewright.adapters.trials.recorded import UNANSWERED, RecordedTrials
from tunewright.cli.console import messages
from tunewright.cli.outputs import check_folder
from tunewright.cli.run import LEDGER_NAME, SIMULATED, Parts, searched, show, trials_at
from tunewright.errors import InvalidInput
from tunewright.planner.records import Header, TrialFinished
from tunewright.planner.replay import header_of
from tunewright.planner.settings import LLMSettings, PlannerSettings
from tunewright.planner.state import fold
from tunewright.ports import Advisor


@dataclass(frozen=True)
class Wanted:
    """Who explores: as typed."""

    llm: str
    no_llm: bool
    api_base: str
    price: str


def run_rerun(path: Path, out: Path, wanted: Wanted, place: str, *, fresh: bool, json_output: bool) -> None:
    """Repeat the search of a ledger into the folder `out`, and say how much of it was answered by the ledger."""
    _check(path, out, wanted)
    records, head = read_ledger_with_head(path)
    recorded = header_of(records)
    settings = _settings(fold(records).settings or recorded.settings, wanted)
    header = _header(recorded, settings, head, simulated=recorded.simulated or place == SIMULATED)
    inner = trials_at(place, out, settings.random_seed) if place else None
    check_folder(out, LEDGER_NAME)
    parts = Parts(header, lambda earlier: RecordedTrials(records, earlier, inner), _advisor(settings, wanted))
    summary = searched(out, parts, fresh=fresh)
    _tell_answered(out / LEDGER_NAME)
    show(out, header.problem, summary, json_output=json_output)


def _check(path: Path, out: Path, wanted: Wanted) -> None:
    if bool(wanted.llm) == wanted.no_llm:
        raise InvalidInput.of("--llm", wanted.llm, "name another LLM with --llm, or say --no-llm: one of the two")
    if not wanted.llm and (wanted.api_base or wanted.price):
        raise InvalidInput.of("--no-llm", True, "goes without --api-base and --price: leave them out")
    if path.resolve() == (out / LEDGER_NAME).resolve():
        raise InvalidInput.of("--out", str(out), "is where LEDGER lies: choose another folder for the rerun")


def _settings(settings: PlannerSettings, wanted: Wanted) -> PlannerSettings:
    explore = settings.explore.model_copy(update={"strategy": "LLM" if wanted.llm else "Surrogate"})
    llm = None
    if wanted.llm:
        price_in, price_out = _prices(wanted.price)
        limit = {"max_output_tokens": settings.llm.max_output_tokens} if settings.llm else {}
        llm = LLMSettings.parse(
            {
                "model": wanted.llm,
                "input_usd_per_million_tokens": price_in,
                "output_usd_per_million_tokens": price_out,
                **limit,
            },
            "--llm",
        )
    return settings.model_copy(update={"explore": explore, "llm": llm, "stop": False})


def _prices(text: str) -> tuple[float | None, float | None]:
    if not text:
        return None, None
    try:
        price_in, price_out = (float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput.of("--price", text, "must be two numbers, USD per million tokens, such as 0.5,1.5") from None
    return price_in, price_out


def _advisor(settings: PlannerSettings, wanted: Wanted) -> Advisor | None:
    if settings.llm is None:
        return None
    names = ("model", "max_output_tokens", "input_usd_per_million_tokens", "output_usd_per_million_tokens")
    document: dict[str, Any] = {name: getattr(settings.llm, name) for name in names}
    document["api_base"] = wanted.api_base or None
    return LLMAdvisor(LLMConnection.from_environment(document, os.environ, "--llm"))


def _header(recorded: Header, settings: PlannerSettings, head: str, *, simulated: bool) -> Header:
    """Return the header of the rerun: problem, device and catalog are those of the ledger that it repeats."""
    return recorded.model_copy(
        update={
            "run_uid": str(uuid.uuid4()),
            "settings": settings,
            "simulated": simulated,
            "operator_version": tunewright.__version__,
            "spec_digest": "",
            "rerun_of": head,
            "at": SystemClock().now(),
        }
    )


def _tell_answered(path: Path) -> None:
    ended = [record for record in read_ledger(path) if isinstance(record, TrialFinished)]
    answered = sum(bool(record.recorded_from) for record in ended)
    unanswered = sum(record.message.startswith(UNANSWERED) for record in ended)
    messages.print(
        f"{answered} trials were answered by the repeated ledger, {len(ended) - answered - unanswered} were run, "
        f"{unanswered} stayed unanswered",
        soft_wrap=True,
    )
