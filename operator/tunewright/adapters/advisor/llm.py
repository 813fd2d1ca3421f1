"""`LLMAdvisor`: asks an LLM for proposals. Made by the wiring of the operator and of the command line.

Whatever the endpoint does, `ask` returns an `Advice` soon after the connection's timeout and raises nothing but
cancellation. The work runs in a daemon thread: one that hangs costs a round, never the operator.
"""

import asyncio
import hashlib
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import TypeVar

from tunewright.adapters.advisor import runtime
from tunewright.adapters.advisor.answers import Answer, proposed_configs, stated_hypotheses
from tunewright.adapters.advisor.conversation import Conversation, Outcome
from tunewright.adapters.advisor.failures import Failure, classify
from tunewright.adapters.advisor.scripted import utc_now
from tunewright.adapters.advisor.settings import LLMConnection
from tunewright.adapters.advisor.transcript import Exchange, Redactor, Transcript, cut, printable
from tunewright.errors import AdvisorError
from tunewright.planner.records import Advice, AdviceUsage, kept_exchanges
from tunewright.ports import AdviceRequest

IMPORT_SECONDS = 120.0
MARGIN_SECONDS = 1.0
_LONGEST_MESSAGE = 2000
_log = logging.getLogger(__name__)
Result = TypeVar("Result")


class LLMAdvisor:
    """An `Advisor` that asks one endpoint. `transcript` is given what was said in each round, without secrets."""

    def __init__(
        self,
        connection: LLMConnection,
        transcript: Callable[[Transcript], None] | None = None,
        now: Callable[[], str] = utc_now,
    ) -> None:
        self._connection = connection
        self._transcript = transcript
        self._now = now
        self._redact = Redactor.of(connection.secret)
        self._structured = True
        self._program: ModuleType | None = None

    async def warm_up(self) -> None:
        """Import DSPy and LiteLLM in a thread, ahead of the first question; raise `AdvisorError` if that fails."""
        await self._tools()

    async def _tools(self) -> ModuleType:
        if self._program is None:
            work = in_daemon_thread(runtime.load, "advisor-import")
            try:
                self._program = await asyncio.wait_for(work, IMPORT_SECONDS)
            except TimeoutError:
                message = f"importing DSPy and LiteLLM took more than {IMPORT_SECONDS:.0f} s"
                raise AdvisorError("NotConfigured", message) from None
        return self._program

    async def ask(self, request: AdviceRequest) -> Advice:
        """Return proposals, or a failed advice with the reason and what it cost all the same."""
        try:
            conversation = self._conversation(await self._tools(), request)
        except AdvisorError as error:
            return self._advice(request, Failure(error.reason, str(error)), None)
        except Exception as error:
            return self._advice(request, classify(error, self._redact), None)
        outcome = await self._held(conversation)
        self._structured = conversation.structured
        return self._advice(request, outcome, conversation)

    def _conversation(self, tools: ModuleType, request: AdviceRequest) -> Conversation:
        if obstacle := tools.obstacle(self._connection):
            raise AdvisorError("NotConfigured", obstacle)
        if request.max_calls < 1:
            raise AdvisorError("OverBudget", "no call is left in the budget of this round")
        return Conversation(tools, self._connection, request, self._redact, structured=self._structured)

    async def _held(self, conversation: Conversation) -> Outcome:
        limit = self._connection.timeout_seconds
        try:
            return await asyncio.wait_for(in_daemon_thread(conversation.run, "advisor"), limit + MARGIN_SECONDS)
        except TimeoutError:
            return conversation.abandon(f"no complete answer within {limit:g} s: raise timeoutSeconds")
        except Exception as error:
            return classify(error, self._redact)

    def _advice(self, request: AdviceRequest, outcome: Outcome, conversation: Conversation | None) -> Advice:
        exchanges = tuple(conversation.exchanges) if conversation else ()
        failure = outcome if isinstance(outcome, Failure) else None
        answer = Answer(()) if isinstance(outcome, Failure) else outcome
        advice = Advice(
            round=request.round,
            outcome="failed" if failure else "answered",
            proposals=proposed_configs(answer, request.proposals, self._redact),
            hypotheses=stated_hypotheses(answer, self._redact),
            condition_reason=failure.reason if failure else "",
            message=self._said(failure.message) if failure else "",
            provider=self._connection.model.rpartition("/")[0].partition("/")[0],
            model=self._connection.model,
            prompt_digest=hashlib.sha256(exchanges[0].prompt.encode("utf-8", "replace")).hexdigest()
            if exchanges
            else "",
            exchanges=kept_exchanges([(self._redact(one.prompt), self._redact(one.answer)) for one in exchanges]),
            usage=conversation.usage() if conversation else AdviceUsage(calls=0),
            at=self._now(),
        )
        self._report(advice, exchanges)
        return advice

    def _said(self, message: str) -> str:
        return printable(self._redact(message), _LONGEST_MESSAGE)

    def _report(self, advice: Advice, exchanges: tuple[Exchange, ...]) -> None:
        if self._transcript is None:
            return
        clean = tuple(Exchange(cut(self._redact(one.prompt)), cut(self._redact(one.answer))) for one in exchanges)
        try:
            self._transcript(Transcript(advice.round, advice.model, advice.outcome, advice.condition_reason, clean))
        except Exception:
            _log.exception("the transcript of round %d could not be kept", advice.round)


async def in_daemon_thread(work: Callable[[], Result], name: str) -> Result:
    """Run `work` in a thread that does not hold up the end of the process, unlike those of an executor."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # None only where Result is None

    def run() -> None:
        result, fault = None, None
        try:
            result = work()
        except BaseException as error:
            fault = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, fault)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await future
