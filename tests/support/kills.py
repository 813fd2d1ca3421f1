"""SIGKILL of the operator at chosen requests: named crash points, and any request by chance. Plans of `fault_proxy`.

A process is its requests to the world: between two of them nothing outside it changes, so a kill before and a kill
after each kind of request are all the kills there are.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from aiohttp import web

from tests.support.fault_proxy import Call, Harm
from tests.support.forked_operator import ForkedOperator


@dataclass(frozen=True)
class Step:
    """One thing that a reconcile does, told by its request; `said` is a pattern of its query or body.

    A step `spares` another that a kill at it would leave out: it is met only when that other has been.
    """

    name: str
    method: str
    path: str
    said: str = ""
    spares: str = ""

    def is_met_by(self, call: Call) -> bool:
        named = call.method == self.method and re.fullmatch(f".*/{self.path}", call.path) is not None
        said = f"{call.request.query_string}\n{call.text}"
        return named and not call.is_watch and re.search(self.said, said) is not None


def _last_line(kind: str) -> str:
    """Return a pattern of a ledger's text, as JSON, whose last line is a record of a kind; its type comes last."""
    return re.escape(json.dumps(f'"type":"{kind}"}}\n')[1:])


_OF_A_RUN = "tunewright.dev/run"
STEPS = (
    Step("read the ledger", "GET", "configmaps"),
    Step("begin the ledger", "POST", "configmaps", "-ledger-0000"),
    Step("look for nodes", "GET", "nodes"),
    Step("look at Jobs", "GET", "jobs", _OF_A_RUN),
    Step("look at Pods", "GET", "pods", _OF_A_RUN),
    Step("record a round", "PATCH", "configmaps/[^/]+", _last_line("round")),
    Step("create a Job", "POST", "jobs"),
    Step("record a start", "PATCH", "configmaps/[^/]+", _last_line("started")),
    Step("record an end", "PATCH", "configmaps/[^/]+", _last_line("trial")),
    Step("seal a full shard", "PATCH", "configmaps/[^/]+", r'"immutable": true'),
    Step("begin another shard", "POST", "configmaps", "-ledger-0001"),
    Step("give a Job its lifetime", "PATCH", "jobs/[^/]+", "ttlSecondsAfterFinished"),
    Step("write the status", "PATCH", "tuningruns/[^/]+/status", spares="post an event"),
    Step("post an event", "POST", "events"),
    Step("write the results", "POST", "configmaps", "-result"),
)
ANSWER_RECORDED = Step(
    "record an answer", "PATCH", "configmaps/[^/]+", r'\\"type\\":\\"advice\\",\\"usage\\":\{[^}]*\}\}\\n"'
)


def killing(operator: ForkedOperator, *, after: bool) -> Harm:
    """Kill the operator before or after what its request asks for is done."""

    async def harm(call: Call) -> web.StreamResponse:
        if after:
            await call.done_unseen()
        operator.kill()
        call.hang_up()
        return web.Response()

    return harm


class AtEachStep:
    """Kills before each step, and after each; `left` are those that were not reached."""

    def __init__(self, operator: ForkedOperator, steps: Iterable[Step] = STEPS) -> None:
        self.left = [(step, after) for step in steps for after in (False, True)]
        self._operator = operator

    def __call__(self, call: Call) -> Harm | None:
        if not self._operator.has_started:
            return None  # what it had sent before it was killed
        waiting = {step.name for step, _ in self.left}
        for step, after in self.left:
            if step.spares not in waiting and step.is_met_by(call):
                self.left.remove((step, after))
                return killing(self._operator, after=after)
        return None


class AtRandom:
    """Kills at any request of a life, each as likely as the next, `count` times."""

    def __init__(self, operator: ForkedOperator, random: Random, count: int, most_requests: int = 50) -> None:
        self.left = count
        self._operator, self._random, self._most = operator, random, most_requests
        self._life, self._until_death = 0, 0

    def __call__(self, call: Call) -> Harm | None:
        if self.left == 0 or not self._operator.has_started:
            return None
        if self._life != self._operator.starts:
            self._life, self._until_death = self._operator.starts, self._random.randrange(1, self._most)
        self._until_death -= 1
        if self._until_death > 0:
            return None
        self.left -= 1
        return killing(self._operator, after=self._random.random() < 0.5)
