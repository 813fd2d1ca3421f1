"""The command line: reads the request, has it run, writes the report. Called by `__main__`.

    python -m tunewright_trial [--request FILE] [--report FILE] [--diagnostics FOLDER] [--stop-with-stdin]
    python -m tunewright_trial --probe

The request comes from --request, TUNEWRIGHT_REQUEST (a file) or TUNEWRIGHT_REQUEST_JSON (the text itself).
On several nodes one of them writes the result, and each its own failure.
Exit code 0: all went well. 2: there is no valid request (a report says so if the request tells whose it is, and
not where the configuration is another than its digest says).
3: a failure was written.
"""

import argparse
import json
import os
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tunewright.domain.value import canonical_json
from tunewright.errors import InvalidInput, ProtocolError
from tunewright.trial_protocol.codec import ForeignConfig, decode_request
from tunewright.trial_protocol.identity import TrialIdentity
from tunewright.trial_protocol.report import DeviceFacts, Measured, Profile, Runner, TrialReport
from tunewright.trial_protocol.request import TrialRequest
from tunewright_trial.diagnostics import VARIABLE, Diagnostics, folder_of, node_name
from tunewright_trial.failures import classify
from tunewright_trial.gathering import gather
from tunewright_trial.host_memory import check_shared_memory
from tunewright_trial.interruptions import ignore_interruptions, interruptible, release_interruptions
from tunewright_trial.launched import primus
from tunewright_trial.log import open_streams, say
from tunewright_trial.report_file import write_report
from tunewright_trial.supervisor import Finding, places, supervise, worst

EXIT_RESULT = 0
EXIT_BAD_REQUEST = 2
EXIT_FAILURE = 3
DEFAULT_REPORT = "/dev/termination-log"
MAX_REQUEST_BYTES = 2**20
"""What a ConfigMap may hold; a request has a few thousand."""


def main(arguments: Sequence[str]) -> int:
    """Run the program and return its exit code."""
    started = time.monotonic()
    open_streams()
    options = _parser().parse_args(arguments)
    if options.probe:
        release_interruptions()
        from tunewright_trial.probe import probe  # imports torch, which nothing else here does

        print(json.dumps(probe(), sort_keys=True))
        return EXIT_RESULT
    target = Path(options.report or os.environ.get("TUNEWRIGHT_REPORT") or DEFAULT_REPORT)
    text = ""
    try:
        text = read_request(options.request, os.environ)
        request = decode_request(text)
    except (ProtocolError, OSError, UnicodeDecodeError) as error:
        message = f"no valid request: {' '.join(str(error).split())}"
        say(message)
        if not isinstance(error, ForeignConfig):
            _refuse(target, text, message)
        return EXIT_BAD_REQUEST
    if options.diagnostics:
        os.environ[VARIABLE] = options.diagnostics  # for the ranks and the launcher as well
    report = run(request, started, options.stop_with_stdin)
    ignore_interruptions()
    code = EXIT_RESULT if report is None else _deliver(target, report)
    _keep(request, report)
    return code


def _refuse(target: Path, text: str, message: str) -> None:
    """Say in a report why a request was refused, if it can at least be told whose request it was."""
    identity = identity_in(text)
    if identity is not None:
        _deliver(target, TrialReport(identity=identity, failure="Unsupported", message=message[:500]))


def identity_in(text: str) -> TrialIdentity | None:
    """Return the identity of a request that is otherwise not valid, or None."""
    try:
        return TrialIdentity.parse(json.loads(text)["identity"])
    except (ValueError, KeyError, TypeError, RecursionError, InvalidInput):
        return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("tunewright_trial", description="Runs one trial and writes its report.")
    parser.add_argument("--request", help="file with the request; default $TUNEWRIGHT_REQUEST")
    parser.add_argument("--report", help=f"file for the report; default $TUNEWRIGHT_REPORT or {DEFAULT_REPORT}")
    parser.add_argument("--diagnostics", help=f"folder for details; default ${VARIABLE} or a volume at /diagnostics")
    parser.add_argument("--stop-with-stdin", action="store_true", help="end when standard input is closed")
    parser.add_argument("--probe", action="store_true", help="measure this machine and print a cpu preset as JSON")
    return parser


def read_request(path: str | None, environment: Mapping[str, str]) -> str:
    """Return the text of the request; raise ProtocolError or OSError where there is none."""
    inline = environment.get("TUNEWRIGHT_REQUEST_JSON")
    if not path and not environment.get("TUNEWRIGHT_REQUEST") and inline:
        return inline
    source = Path(path or environment.get("TUNEWRIGHT_REQUEST") or "")
    if source == Path():
        raise ProtocolError("give --request FILE, TUNEWRIGHT_REQUEST or TUNEWRIGHT_REQUEST_JSON")
    found = source.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ProtocolError(f"{source} is not a regular file")  # reading a pipe or a device may never end
    if found.st_size > MAX_REQUEST_BYTES:
        raise ProtocolError(f"{source} has {found.st_size} bytes, the limit is {MAX_REQUEST_BYTES}")
    return source.read_text(encoding="utf-8")


def run(request: TrialRequest, started: float, stop_with_stdin: bool = False) -> TrialReport | None:
    """Run the trial and return its report, whatever happens; None when all went well and another node has the result.

    `started` is the monotonic time from which the deadline counts, on several nodes only where they are all there.
    """
    runner: Runner = "primus" if primus.runs_here(request, os.environ) else "builtin"
    try:
        with interruptible():
            check_shared_memory(request)
            began = started
            if request.nodes > 1:
                gather(request, os.environ)
                began = time.monotonic()
            if runner == "primus":
                outcome = primus.outcome(request, began, stop_with_stdin)
            else:
                outcome = outcome_of(request, supervise(request, began, stop_with_stdin))
    except Exception as error:  # whatever it was, the report says it
        failure, message = classify(error)
        outcome = {"failure": failure, "message": message[:500]}
    if not outcome:
        return None
    seconds = round(time.monotonic() - started, 3)
    return TrialReport(identity=request.identity, runner=runner, wall_seconds=seconds, **outcome)


def outcome_of(request: TrialRequest, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return what the report says of the ranks of this node: the first rank's result, or what went wrong.

    Nothing where all went well and the first rank is on another node.
    """
    here = places(request, os.environ, "")
    device = next((DeviceFacts.parse(json.loads(finding.device)) for finding in findings if finding.device), None)
    failed = worst(findings)
    if failed is not None:
        local_rank, finding = failed
        message = f"rank {here[local_rank].rank}: {finding.message}"[:500]
        return {"device": device, "failure": finding.failure, "message": message}
    if here[0].rank > 0:
        return {}
    result = json.loads(findings[0].result)
    if request.identity.kind == "measure":
        return {"device": device, "measured": Measured.parse(result)}
    return {"device": device, "profile": Profile.parse(result)}


def _keep(request: TrialRequest, report: TrialReport | None) -> None:
    """Leave this node's documents with the diagnostics, after the report is where it must be."""
    kept, node = Diagnostics(folder_of(request, os.environ)), node_name(os.environ)
    for name, document in (("request", request), ("report", report)):
        if document is not None:
            kept.keep(f"{node}-{name}.json", canonical_json(document.to_json()))


def _deliver(path: Path, report: TrialReport) -> int:
    try:
        write_report(path, report)
    except (OSError, ProtocolError) as error:
        text = canonical_json(report.to_json())
        say(f"the report cannot be written to {path}: {error}. It was: {text}")
        return EXIT_FAILURE
    return EXIT_FAILURE if report.failure else EXIT_RESULT
