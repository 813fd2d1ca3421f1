"""The DSPy program behind one round: how a question becomes a request, and an answer proposals.

Imported on first use only, through `runtime`. One call of `propose` or `repair` is exactly one request: no retries, no
second adapter and no cache below; whether to ask again is decided, and counted, in `conversation`.
"""

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import dspy
import litellm
from dspy.utils.callback import BaseCallback
from dspy.utils.exceptions import AdapterParseError
from pydantic import BaseModel, TypeAdapter

from tunewright.adapters.advisor.answers import Proposal, proposal_type
from tunewright.adapters.advisor.reading import find_answer
from tunewright.adapters.advisor.settings import LLMConnection
from tunewright.adapters.advisor.signatures import ProposeConfigurations, RepairAnswer, with_proposals
from tunewright.adapters.advisor.tokens import estimated_tokens
from tunewright.errors import AdvisorError

NO_KEY = "none"
"""Sent to an address of the person's own that needs no key. Without it LiteLLM would send the provider's key there."""


class EndpointLM(dspy.LM):
    """One endpoint. `structured`: whether to send the JSON schema, where the endpoint is thought to take one."""

    def __init__(self, connection: LLMConnection, most_prompt_tokens: float, *, structured: bool) -> None:
        self._structured = structured
        self._most_prompt_tokens = most_prompt_tokens
        self._own_address = connection.api_base is not None
        super().__init__(connection.model, cache=False, num_retries=0, engine="litellm", **_client(connection))

    def __call__(self, prompt: str | None = None, *, messages: Any = None, **options: Any) -> Any:  # noqa: ANN401
        """Send one request, unless its prompt, schema included, may take more tokens than were reserved for it."""
        tokens = estimated_tokens(_text_of(messages, options.get("response_format")))
        if tokens > self._most_prompt_tokens:
            left = f"{max(self._most_prompt_tokens, 0):.0f} are left of its reservation"
            raise AdvisorError("OverBudget", f"the prompt may take {tokens} tokens, {left}: nothing was sent")
        return super().__call__(prompt, messages=messages, **options)

    @property
    def supports_response_schema(self) -> bool:
        """Tell the adapter. Catalogs know nothing of a person's own endpoint: there the schema is tried."""
        return self._structured and (self._own_address or bool(super().supports_response_schema))


def _client(connection: LLMConnection) -> dict[str, Any]:
    options: dict[str, Any] = {"drop_params": True}
    if connection.api_base is not None:
        options["api_base"] = connection.api_base
    key = connection.secret or (NO_KEY if connection.api_base is not None else None)
    return options if key is None else {**options, "api_key": key}


def _text_of(messages: Any, response_format: Any) -> str:  # noqa: ANN401 - as DSPy hands them over
    texts = [str(message.get("content", "")) for message in messages or ()]
    if isinstance(response_format, type) and issubclass(response_format, BaseModel):
        texts.append(json.dumps(response_format.model_json_schema()))
    return "".join(texts)


class ProposalAdapter(dspy.JSONAdapter):
    """DSPy's JSON adapter, which asks once; the reading is ours, with bounded effort and without secrets."""

    def __init__(self, redact: Callable[[str], str], wanted: int) -> None:
        super().__init__()
        self._redact = redact
        self._wanted = wanted

    def _prepare_response_format(self, lm: dspy.LM, lm_kwargs: dict[str, Any], signature: type[dspy.Signature]) -> None:
        """Bound the lists: a model that is held to a schema does not stop by itself where it may go on."""
        super()._prepare_response_format(lm, lm_kwargs, signature)
        form = lm_kwargs.get("response_format")
        if isinstance(form, type) and issubclass(form, BaseModel):
            for name in ("hypotheses", "proposals"):
                form.model_json_schema()["properties"][name]["maxItems"] = self._wanted  # DSPy keeps one schema

    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
        """Read an answer; raise `AdapterParseError`."""
        found = find_answer(self._redact(completion))
        if found is None:
            raise AdapterParseError("ProposalAdapter", signature, completion)
        said = {"hypotheses": found.hypotheses, "proposals": found.proposals}
        fields = signature.output_fields
        return {name: TypeAdapter(fields[name].annotation).validate_python(said[name]) for name in fields}


class ProposalProgram(dspy.Module):
    """Asks for proposals, and for one repair of an answer that could not be read."""

    def __init__(self, proposal: type[Proposal]) -> None:
        super().__init__()
        self.proposer = dspy.Predict(with_proposals(ProposeConfigurations, proposal))
        self.repairer = dspy.Predict(with_proposals(RepairAnswer, proposal))

    def forward(self, *, config: Mapping[str, Any], **question: Any) -> dspy.Prediction:  # noqa: ANN401
        """Answer one question: `briefing` and `wanted`, or `answer` and `fault`."""
        predictor = self.repairer if "fault" in question else self.proposer
        return predictor(config=dict(config), **question)


@functools.lru_cache(maxsize=16)
def program_for(axes_json: str) -> ProposalProgram:
    """Return the program for an axis table. Kept, since classes made anew in each round are never freed by pydantic."""
    return ProposalProgram(proposal_type(json.loads(axes_json)))


class Recorder(BaseCallback):
    """Keeps the prompt and the answer of one call, whatever becomes of it."""

    def __init__(self) -> None:
        self.prompt = ""
        self.answer = ""
        self.schema_sent = False

    def on_lm_start(self, call_id: str, instance: object, inputs: Mapping[str, Any]) -> None:
        """Keep the messages, and whether a schema went with them."""
        self.schema_sent = isinstance(inputs.get("kwargs", {}).get("response_format"), type)
        self.prompt = json.dumps(inputs.get("messages"), sort_keys=True, ensure_ascii=False)

    def on_lm_end(self, call_id: str, outputs: Any, exception: Exception | None = None) -> None:  # noqa: ANN401
        """Keep the first candidate's text."""
        first = outputs[0] if isinstance(outputs, list) and outputs else ""
        self.answer = str(first.get("text") or "") if isinstance(first, dict) else str(first or "")


class Tracker:
    """What the endpoint says it used: DSPy adds one entry for each answer."""

    def __init__(self) -> None:
        self.entries: list[Mapping[str, Any]] = []

    def add_usage(self, lm: str, usage_entry: Mapping[str, Any]) -> None:
        """Take one entry; `lm` is the model's name."""
        self.entries.append(usage_entry)


@contextmanager
def speaking(lm: EndpointLM, adapter: ProposalAdapter, recorder: Recorder, tracker: Tracker) -> Iterator[None]:
    """Make `lm` the one that programs of this thread talk to. `dspy.configure` belongs to the process's main thread."""
    with dspy.context(
        lm=lm,
        adapter=adapter,
        callbacks=[recorder],
        usage_tracker=tracker,
        disable_history=True,
        trace=None,  # kept for optimisers, which are not used here
    ):
        yield


def obstacle(connection: LLMConnection) -> str:
    """Say what is missing before any request can be sent; empty when nothing is."""
    try:
        litellm.get_llm_provider(connection.model, api_base=connection.api_base)
    except Exception:
        return f"model {connection.model!r} names no provider that LiteLLM knows: write it as PROVIDER/NAME"
    if connection.secret is not None or connection.api_base is not None:
        return ""
    missing = litellm.validate_environment(connection.model).get("missing_keys") or []
    return f"no key: set {' and '.join(missing)}, TUNEWRIGHT_LLM_API_KEY or apiKeySecretRef" if missing else ""


def catalog_cost_usd(model: str, input_tokens: int, output_tokens: int) -> float:
    """Return what LiteLLM's catalog says these tokens cost, cached ones at full price; 0 for a model not in it."""
    try:
        costs = litellm.cost_per_token(model, prompt_tokens=input_tokens, completion_tokens=output_tokens)
    except Exception:
        return 0.0
    return float(sum(costs))
