"""One round with the LLM, from the question to proposals or the reason why there are none. Runs in a worker thread.

Every request is counted, and none is sent that the round's reservation does not cover. Asked again, and only then: what
the endpoint refused without working on it (429, 5xx, no connection), a schema it does not take, and once, to repair an
answer that cannot be read.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from tunewright.adapters.advisor import failures
from tunewright.adapters.advisor.answers import Answer, readable
from tunewright.adapters.advisor.failures import Failure
from tunewright.adapters.advisor.settings import LLMConnection
from tunewright.adapters.advisor.tokens import estimated_tokens
from tunewright.adapters.advisor.transcript import Exchange
from tunewright.domain.value import canonical_json
from tunewright.errors import AdvisorError
from tunewright.planner.records import AdviceUsage
from tunewright.ports import AdviceRequest

_FIRST_WAIT_SECONDS = 0.5
_LEAST_REPAIR_TOKENS = 64
_LONGEST_REPAIR_CHARACTERS = 16_384
_LARGEST_COUNT = 10**9

Outcome = Answer | Failure


@dataclass
class Bill:
    """What the round has used so far."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, input_tokens: int, output_tokens: int) -> None:
        """Add one call."""
        self.calls += 1
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens


class Conversation:
    """One round. `structured` changes when the endpoint turns out not to take a schema; the advisor keeps it."""

    def __init__(
        self,
        tools: ModuleType,
        connection: LLMConnection,
        request: AdviceRequest,
        redact: Callable[[str], str],
        *,
        structured: bool,
    ) -> None:
        self.structured = structured
        self.bill = Bill()
        self.exchanges: list[Exchange] = []
        self._tools = tools
        self._connection = connection
        self._request = request
        self._redact = redact
        self._given_up = threading.Event()
        self._books = threading.Lock()
        self._in_flight: tuple[Any, int] | None = None
        self._briefing = canonical_json(dict(request.context))
        self._program = tools.program_for(canonical_json(request.context.get("axes")))
        self._output_tokens = min(request.max_output_tokens, connection.max_output_tokens)
        self._ends_at = time.monotonic() + connection.timeout_seconds

    def run(self) -> Outcome:
        """Hold the conversation. Never raises."""
        outcome = self._asked({"briefing": self._briefing, "wanted": self._request.proposals})
        if isinstance(outcome, Failure) and outcome.reason == "Malformed":
            outcome = self._repaired(outcome)
        return outcome

    def abandon(self, message: str) -> Failure:
        """Close the books from another thread: what is under way counts as billed in full, nothing more is sent."""
        failure = Failure("Timeout", message, maybe_billed=True)
        with self._books:
            self._given_up.set()
            if self._in_flight is not None:
                recorder, output_tokens = self._in_flight
                self._enter(failure, recorder, self._tools.Tracker(), output_tokens)
        return failure

    def usage(self) -> AdviceUsage:
        """Return what the round cost."""
        bill = self.bill
        return AdviceUsage(
            calls=bill.calls,
            input_tokens=bill.input_tokens,
            output_tokens=bill.output_tokens,
            cost_usd=self._cost_usd(bill),
        )

    def _cost_usd(self, bill: Bill) -> float:
        price_in = self._connection.input_usd_per_million_tokens
        price_out = self._connection.output_usd_per_million_tokens
        if price_in is None and price_out is None:
            cost: float = self._tools.catalog_cost_usd(self._connection.model, bill.input_tokens, bill.output_tokens)
            return cost
        return (bill.input_tokens * (price_in or 0.0) + bill.output_tokens * (price_out or 0.0)) / 1e6

    def _asked(self, question: dict[str, Any]) -> Outcome:
        """Ask, and ask again while the endpoint refuses to work and the round allows it."""
        retries = 0
        while True:
            schema, outcome = self.structured, self._call(question, self._output_tokens)
            if not isinstance(outcome, Failure) or self.bill.calls >= self._request.max_calls:
                return outcome
            if schema and not self.structured:
                continue
            if not outcome.may_repeat or retries >= self._connection.num_retries or not self._waited(outcome, retries):
                return outcome
            retries += 1

    def _waited(self, failure: Failure, retries: int) -> bool:
        """Wait as long as the endpoint asked for; false when the round would be over by then."""
        asked_for = failure.retry_after_seconds
        seconds = _FIRST_WAIT_SECONDS * 2**retries if asked_for is None else asked_for
        return seconds < self._seconds_left() and not self._given_up.wait(seconds)

    def _repaired(self, failure: Failure) -> Outcome:
        text = failure.text[:_LONGEST_REPAIR_CHARACTERS]
        output_tokens = self._repair_output_tokens(text)
        if not text.strip() or output_tokens < _LEAST_REPAIR_TOKENS:
            return failure
        outcome = self._call({"answer": text, "fault": failure.message}, output_tokens)
        if not isinstance(outcome, Failure):
            return outcome
        return replace(failure, message=f"{failure.message}; asked to repair it: {outcome.message}")

    def _repair_output_tokens(self, text: str) -> int:
        """Return the tokens that a repair may answer with, 0 if the reservation does not cover one at all.

        Input and output are kept apart, so that neither the tokens nor, at any ratio of prices, the cost is exceeded.
        """
        if self.bill.calls >= self._request.max_calls or self._seconds_left() <= 0:
            return 0
        if self._request.reserved_tokens is None:
            return self._output_tokens
        # The instructions and the schema are those of the first prompt, which is longer than them by the briefing.
        instructions = estimated_tokens(self.exchanges[0].prompt) - estimated_tokens(self._briefing)
        prompt = instructions + estimated_tokens(text)
        return self._output_tokens - self.bill.output_tokens if prompt <= self._input_tokens_left() else 0

    def _input_tokens_left(self) -> float:
        """Return the prompt tokens that the reservation still covers."""
        if self._request.reserved_tokens is None:
            return math.inf
        return self._request.reserved_tokens - self._request.max_output_tokens - self.bill.input_tokens

    def _call(self, question: dict[str, Any], output_tokens: int) -> Outcome:
        """Send one request, whatever happens, and put it on the bill."""
        recorder, tracker = self._tools.Recorder(), self._tools.Tracker()
        self._in_flight = (recorder, output_tokens)
        try:
            lm = self._tools.EndpointLM(self._connection, self._input_tokens_left(), structured=self.structured)
            adapter = self._tools.ProposalAdapter(self._redact, self._request.proposals)
            with self._tools.speaking(lm, adapter, recorder, tracker):
                prediction = self._program(config=self._config(output_tokens), **question)
            answer = Answer(prediction.proposals, prediction.hypotheses)
            outcome = _judged(answer, self._redact(recorder.answer))
        except AdvisorError as error:
            outcome = Failure(error.reason, str(error), sent=False)
        except Exception as error:  # the boundary: foreign exceptions end here
            outcome = failures.classify(error, self._redact)
        with self._books:
            self._in_flight = None
            if not self._given_up.is_set():
                self._enter(outcome, recorder, tracker, output_tokens)
        return _explained(outcome, tracker, output_tokens)

    def _config(self, output_tokens: int) -> dict[str, Any]:
        # Whole seconds: LiteLLM keeps an HTTP client for each timeout that it has ever seen. `llm` cuts off sharply.
        config: dict[str, Any] = {"max_tokens": output_tokens, "timeout": max(math.ceil(self._seconds_left()), 1)}
        if self._connection.temperature is not None:
            config["temperature"] = self._connection.temperature
        return config

    def _enter(self, outcome: Outcome, recorder: Any, tracker: Any, output_tokens: int) -> None:  # noqa: ANN401
        """Put one call into the books."""
        if not recorder.prompt:
            return
        self.exchanges.append(Exchange(recorder.prompt, recorder.answer))
        if isinstance(outcome, Failure) and outcome.refused_request:
            # A schema that was refused is left out from now on; a refusal without one shows it was not the schema.
            self.structured = not recorder.schema_sent
        prompt_tokens = estimated_tokens(recorder.prompt)
        if tracker.entries or recorder.answer:
            entry = tracker.entries[-1] if tracker.entries else {}
            answer_tokens = _count(entry.get("completion_tokens")) or estimated_tokens(recorder.answer)
            self.bill.add(_count(entry.get("prompt_tokens")) or prompt_tokens, answer_tokens)
        elif isinstance(outcome, Failure) and outcome.maybe_billed:
            self.bill.add(prompt_tokens, output_tokens)
        elif not isinstance(outcome, Failure) or outcome.sent:
            self.bill.add(0, 0)

    def _seconds_left(self) -> float:
        return 0.0 if self._given_up.is_set() else self._ends_at - time.monotonic()


def _judged(answer: Answer, text: str) -> Outcome:
    if not answer.proposals:
        return failures.malformed(text, "the answer holds no proposals")
    return answer if readable(answer.proposals) else failures.malformed(text, "the answer holds no readable proposal")


def _explained(outcome: Outcome, tracker: Any, output_tokens: int) -> Outcome:  # noqa: ANN401
    """Say so when an answer cannot be read because it ended too early; a repair could not finish it either."""
    if not isinstance(outcome, Failure) or outcome.reason != "Malformed" or not tracker.entries:
        return outcome
    if _count(tracker.entries[-1].get("completion_tokens")) < output_tokens:
        return outcome
    ended = f"{outcome.message} (it ended at the limit of {output_tokens} tokens: raise maxOutputTokens)"
    return replace(outcome, message=ended, text="")


def _count(value: object) -> int:
    """Return a token count as the endpoint gave it, 0 if that is no count."""
    return value if type(value) is int and 0 < value <= _LARGEST_COUNT else 0
