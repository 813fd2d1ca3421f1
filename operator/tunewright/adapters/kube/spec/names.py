"""What the API server takes as names, keys and quantities of the objects that a run creates. Used by `trial`.

Source: Kubernetes, "Object Names and IDs", "Labels and Selectors" and `validation.ValidateResourceRequirements`. A spec
that breaks these would be accepted, and each of its Jobs refused.
"""

from collections.abc import Mapping
from decimal import Decimal as Number
from typing import Annotated

from pydantic import StringConstraints

from tunewright.adapters.kube.spec.base import rule

_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN = "[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_STANDARD_RESOURCES = "cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMG]i"
LABEL_KEY_PATTERN = f"^({_DOMAIN}/)?{_NAME}$"
RESOURCE_PATTERN = f"^({_STANDARD_RESOURCES}|{_DOMAIN}/{_NAME})$"

LabelKey = Annotated[str, StringConstraints(max_length=317, pattern=LABEL_KEY_PATTERN)]
LabelValue = Annotated[str, StringConstraints(max_length=63, pattern=f"^({_NAME})?$")]
QueueName = Annotated[str, StringConstraints(max_length=63, pattern="^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
ExtendedResource = Annotated[str, StringConstraints(max_length=317, pattern=f"^{_DOMAIN}/{_NAME}$")]
ResourceName = Annotated[str, StringConstraints(max_length=317, pattern=RESOURCE_PATTERN)]
Quantity = Annotated[
    str, StringConstraints(pattern=r"^[0-9]{1,15}(\.[0-9]{1,9})?([KMGTPE]i|[kMGTPE]|m)?$", max_length=24)
]

_SCALES: Mapping[str, Number] = {
    "m": Number("0.001"),
    **{letter: Number(1000**power) for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Number(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
}


def keys_rule(pattern: str, message: str) -> dict[str, str]:
    """Return the CEL rule that every key of a map matches `pattern`; a schema has no patterns for keys."""
    return rule(f"self.all(key, key.matches('{pattern}'))", message=message)


def amount(quantity: str) -> Number:
    """Return a quantity as a number.

    >>> amount("1500m"), amount("2Ki")
    (Decimal('1.500'), Decimal('2048'))
    """
    digits = quantity.rstrip("".join(_SCALES))
    return Number(digits) * _SCALES.get(quantity[len(digits) :], Number(1))


def request_fault(requests: Mapping[str, str], limits: Mapping[str, str]) -> str:
    """Return what Kubernetes refuses about requests beside their limits, or an empty text."""
    for name, wanted in requests.items():
        limit = limits.get(name)
        if "/" in name and (limit is None or amount(limit) != amount(wanted)):
            return f"requests of {name} must equal its limit: set both, or the limit alone"
        if limit is not None and amount(wanted) > amount(limit):
            return f"requests {wanted} of {name} exceed its limit {limit}: lower one or raise the other"
    return ""
