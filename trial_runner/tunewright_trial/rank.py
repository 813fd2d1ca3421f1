"""One process of a trial: finds its device, runs its part, tells the supervisor. Started by `supervisor`.

Importing this module imports torch: the fork server does it once for all ranks of a node.
"""

import json
import os
import traceback
from multiprocessing.connection import Connection

import torch

from tunewright.trial_protocol.codec import decode_request
from tunewright.trial_protocol.request import TrialRequest
from tunewright_trial.device import environment_lines, facts_of, select_device
from tunewright_trial.diagnostics import of_this_rank
from tunewright_trial.failures import TrialFailure, classify
from tunewright_trial.host_memory import bound_memory, memory_bytes
from tunewright_trial.log import say
from tunewright_trial.measure import measure
from tunewright_trial.place import Place
from tunewright_trial.profile import profile


def run_rank(request_text: str, place: Place, supervisor: Connection) -> None:
    """Run one rank and send ("device", json), then ("result", json) or ("failed", class, message)."""
    try:
        request = decode_request(request_text)
        result = _run(request, place, supervisor)
        supervisor.send(("result", result))
    except BaseException as error:  # whatever it is, the supervisor must hear of it
        failure, message = classify(error)
        trace = traceback.format_exc()
        say(f"rank {place.rank}: {failure}: {message}" if isinstance(error, TrialFailure) else trace)
        of_this_rank.add("failed", traceback=trace)
        supervisor.send(("failed", failure, message))
    finally:
        supervisor.close()


def _run(request: TrialRequest, place: Place, supervisor: Connection) -> str:
    device = select_device(request.device, place.local_rank)
    if device.type == "cpu":
        bound_memory(memory_bytes())
        torch.set_num_threads(1)  # one core per rank, as one device per rank elsewhere; results do not depend on cores
    facts, environment = facts_of(device), environment_lines(os.environ)
    of_this_rank.open(place.diagnostics_folder, place.rank)
    of_this_rank.add("began", device=facts.to_json(), environment=environment)
    supervisor.send(("device", json.dumps(facts.to_json())))
    if place.local_rank == 0:
        say("\n".join([repr(facts), *environment]))
    outcome = measure if request.identity.kind == "measure" else profile
    result = outcome(request, place, device).to_json()
    of_this_rank.add("ended", result=result)
    return json.dumps(result)
