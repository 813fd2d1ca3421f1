"""JSON text of requests and reports, and the checks that make a report trustworthy.

Called by the trial program (write) and by the trial adapters (read).
"""

import json

from tunewright.domain.value import canonical_json
from tunewright.errors import InvalidInput, ProtocolError
from tunewright.trial_protocol.identity import PROTOCOL_MINOR, PROTOCOL_VERSION, TrialIdentity, config_digest
from tunewright.trial_protocol.report import MAX_REPORT_BYTES, TrialReport
from tunewright.trial_protocol.request import TrialRequest


class ForeignConfig(ProtocolError):
    """A request whose configuration is not the one that its identity names: no report can be true of both."""


def encode_request(request: TrialRequest) -> str:
    """Return the canonical JSON of a request."""
    return canonical_json(request.to_json())


def decode_request(text: str) -> TrialRequest:
    """Read a request; raise `ProtocolError` saying what is wrong with it, `ForeignConfig` for a wrong digest."""
    document = _document(text, "request")
    try:
        request = TrialRequest.parse(document, "request", leave_out_unknown=_is_newer(document))
    except InvalidInput as error:
        raise ProtocolError(f"the request is not valid: {error}") from None
    expected = config_digest(request.config)
    if request.identity.config_digest != expected:
        named = request.identity.config_digest
        raise ForeignConfig(f"the request names configuration {named} and holds {expected}: its report would mislead")
    return request


def encode_report(report: TrialReport) -> str:
    """Return the canonical JSON of a report; raise `ProtocolError` when it exceeds 3,000 bytes."""
    text = canonical_json(report.to_json())
    if len(text.encode()) > MAX_REPORT_BYTES:
        raise ProtocolError(f"the report has {len(text.encode())} bytes, the limit is {MAX_REPORT_BYTES}")
    return text


def decode_report(text: str, expected: TrialIdentity) -> TrialReport:
    """Read a report of exactly the attempt `expected`; raise `ProtocolError` for anything else."""
    if len(text.encode()) > MAX_REPORT_BYTES:
        raise ProtocolError(f"the report has {len(text.encode())} bytes, the limit is {MAX_REPORT_BYTES}")
    document = _document(text, "report")
    try:
        report = TrialReport.parse(document, "report", leave_out_unknown=_is_newer(document))
    except InvalidInput as error:
        raise ProtocolError(f"the report is not valid: {error}") from None
    if report.identity != expected:
        raise ProtocolError(f"the report belongs to another trial: {_difference(report.identity, expected)}")
    return report


def _document(text: str, what: str) -> dict[str, object]:
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the {what} is not JSON (truncated?): {error}") from None
    if not isinstance(document, dict):
        raise ProtocolError(f"the {what} is not a JSON object")
    version = document.get("protocolVersion")
    if version != PROTOCOL_VERSION:
        raise ProtocolError(f"the {what} has protocol version {version!r}, this build knows {PROTOCOL_VERSION}")
    return document


def _is_newer(document: dict[str, object]) -> bool:
    """Tell whether a newer minor wrote it: only then is a field that nobody here knows no mistake."""
    minor = document.get("protocolMinor")
    return isinstance(minor, int) and minor > PROTOCOL_MINOR


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number in JSON")


def _difference(found: TrialIdentity, expected: TrialIdentity) -> str:
    pairs = [(name, getattr(found, name), getattr(expected, name)) for name in TrialIdentity.model_fields]
    return ", ".join(f"{name} is {got!r}, expected {want!r}" for name, got, want in pairs if got != want)
