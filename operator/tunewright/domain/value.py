"""The base of every value that is written down: frozen, strict about field names, camelCase in JSON.

Used by domain, trial_protocol, planner and the custom resource models.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from tunewright.errors import InvalidInput, Problem

MOST_TYPED = 2**31 - 1
"""Largest number that anybody types for a count."""
_MOST_BITS = 64
_LONGEST_NAME = 64

_PYTHON_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")
_ACRONYMS = {"gpu": "GPU", "gpus": "GPUs", "llm": "LLM", "usd": "USD", "ttl": "TTL", "id": "ID"}


def camel_case(name: str) -> str:
    """Turn a Python field name into its JSON name; acronyms stay capital unless they come first.

    >>> camel_case("tokens_per_second_per_gpu"), camel_case("llm_calls"), camel_case("max_llm_calls")
    ('tokensPerSecondPerGPU', 'llmCalls', 'maxLLMCalls')
    """
    first, *rest = name.split("_")
    return first + "".join(_ACRONYMS.get(word, word.capitalize()) for word in rest)


class Value(BaseModel):
    """A frozen value: unknown fields are refused, JSON names are camelCase, Python names are accepted too."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=camel_case, populate_by_name=True, allow_inf_nan=False
    )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: camelCase keys, plain values, absent where None."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def digest(self) -> str:
        """Return the SHA-256 of the canonical JSON form, as 64 hexadecimal digits."""
        return hashlib.sha256(canonical_json(self.to_json()).encode()).hexdigest()

    @classmethod
    def parse(cls, document: object, field: str = "", *, leave_out_unknown: bool = False) -> Self:
        """Validate `document`; raise `InvalidInput` naming every wrong field under `field`.

        Unknown fields are wrong, unless they are to be left out.
        """
        try:
            return cls.model_validate(document, extra="ignore" if leave_out_unknown else None)
        except ValidationError as error:
            raise InvalidInput(problems_of(error, field, of=cls)) from None

    @classmethod
    def parse_strictly(cls, document: object, field: str = "") -> Self:
        """Validate plain data as an API server would: JSON names only, and no value turned into another type.

        Raises `InvalidInput` naming every wrong field under `field`, also for what JSON cannot hold.
        """
        try:
            text = json.dumps(document, allow_nan=False)
        except (TypeError, ValueError) as error:
            problems = [*_unlike_json(document, field)] or [
                Problem(field, document, f"holds what JSON cannot: {error}")
            ]
            raise InvalidInput(problems) from None
        except RecursionError:
            raise InvalidInput.of(field, document, "is nested too deeply") from None
        try:
            return cls.model_validate_json(text, strict=True, by_alias=True, by_name=False)
        except ValidationError as error:
            raise InvalidInput(problems_of(error, field, of=cls, as_given=True)) from None


def whole_number(text: str, *, least: int = 0, most: int = MOST_TYPED) -> int | None:
    """Read a whole number as people type it; None unless it is in ASCII digits and within the limits.

    >>> whole_number("12"), whole_number("\u00b2"), whole_number("-1"), whole_number("9" * 5000)
    (12, None, None, None)
    """
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(most)):
        return None
    number = int(text)
    return number if least <= number <= most else None


def canonical_json(document: object) -> str:
    """Serialise with sorted keys and no spaces, so that equal values have equal text."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def problems_of(
    error: ValidationError, field: str = "", *, of: type[BaseModel] | None = None, as_given: bool = False
) -> list[Problem]:
    """Translate pydantic's findings into field, value, remedy. Fields have their JSON names, unless wanted as given.

    `of` is what was validated: its fields are proposed in place of unknown ones.
    """
    items = error.errors()
    found = [_problem_of(item, field, of) for item in items if not _is_echo(item, items)]
    if as_given:
        return found
    return [replace(problem, field=_json_path(problem.field)) for problem in found]


def _unlike_json(document: object, path: str) -> Iterator[Problem]:
    """Yield what JSON cannot hold, each by its place."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield from _unlike_json(key, path) if not isinstance(key, str) else ()
            yield from _unlike_json(value, f"{path}.{key}" if path else str(key))
    elif isinstance(document, list | tuple):
        for place, value in enumerate(document):
            yield from _unlike_json(value, f"{path}.{place}" if path else str(place))
    elif isinstance(document, float):
        if not math.isfinite(document):
            yield Problem(path, document, "must be a finite number")
    elif isinstance(document, int):
        if document.bit_length() > _MOST_BITS:
            yield Problem(path, document, f"must be a number of at most {_MOST_BITS} bits")
    elif document is not None and not isinstance(document, str):
        yield Problem(path, document, "must be text, a number, true or false, a list or a mapping")


def _json_path(path: str) -> str:
    return ".".join(camel_case(part) if _PYTHON_NAME.fullmatch(part) else part for part in path.split("."))


def _is_echo(item: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> bool:
    """A list that is too short only because its items are wrong: the items say it better."""
    place = item["loc"]
    return item["type"] == "too_short" and any(
        len(other["loc"]) > len(place) and other["loc"][: len(place)] == place for other in items
    )


def _problem_of(item: Mapping[str, Any], field: str, of: type[BaseModel] | None) -> Problem:
    path = ".".join(str(part) for part in (field, *item["loc"]) if part != "")
    remedy = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "missing":
        return Problem(path, None, "is required: set it")
    if item["type"] == "extra_forbidden":
        return Problem(path, item["input"], f"is not a known field: {_near(item['loc'], of)}")
    return Problem(path, item["input"], remedy)


def _near(place: Sequence[str | int], of: type[BaseModel] | None) -> str:
    """Say what to do with an unknown field at a place of a document."""
    known = {
        _json_name(name, info) for model in _models_at(place[:-1], of) for name, info in model.model_fields.items()
    }
    near = get_close_matches(camel_case(str(place[-1])[:_LONGEST_NAME]), sorted(known), n=1)
    return f"did you mean {near[0]}?" if near else "remove it or correct its spelling"


def _models_at(place: Sequence[str | int], of: type[BaseModel] | None) -> list[type[BaseModel]]:
    """Return the models that a document may have at a place: more than one where a field has a choice."""
    models = [] if of is None else [of]
    for part in place:
        if not isinstance(part, int):
            infos = [
                info for model in models for name, info in model.model_fields.items() if part == _json_name(name, info)
            ]
            models = [model for info in infos for model in _models_in(info.annotation)]
    return models


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def _json_name(name: str, info: FieldInfo) -> str:
    return info.alias or name
