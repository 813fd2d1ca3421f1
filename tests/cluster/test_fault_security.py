"""Secrets stay where they are, and a hostile trial image changes nothing but its own trial."""

import json
from pathlib import Path

import pytest

from tests.cluster.test_operator_llm import WIDE, asking
from tests.support.cluster.control_plane import ControlPlane
from tests.support.fault_runs import SMALL, scene
from tests.support.openai_server import proposals, refusal, serving
from tests.support.operator_runs import is_finished
from tests.support.stand_in_kubelet import answer, fixed_report
from tunewright.adapters.kube.client import CONFIG_MAPS, EVENTS, JOBS, PODS, TUNING_RUNS
from tunewright.trial_protocol.codec import encode_report
from tunewright.trial_protocol.request import TrialRequest

pytestmark = pytest.mark.usefixtures("own_crd")

LLM_KEY, TRIAL_TOKEN, OPERATOR_KEY = "sk-canary-of-the-run", "hf-canary-of-the-trial", "sk-canary-of-the-operator"
CANARIES = (LLM_KEY, TRIAL_TOKEN, OPERATOR_KEY)


async def test_secrets_are_in_no_status_event_log_ledger_or_object(
    own_control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Also when the endpoint repeats the key in its refusals, as some do."""
    echo = refusal(401, f"Incorrect API key provided: {LLM_KEY}. Authorization: Bearer {LLM_KEY}")
    with serving(proposals({"tensor_parallel_size": 4}, reason=f"my key is {LLM_KEY}"), echo) as server:
        variables = {"TUNEWRIGHT_LLM_API_KEY": OPERATOR_KEY, "OPENAI_API_KEY": OPERATOR_KEY}
        async with scene(own_control_plane, tmp_path, variables=variables) as here:
            create = ("create", "secret", "generic")
            here.cluster.kubectl(*create, "llm", f"--from-literal=apiKey={LLM_KEY}", "-n", here.namespace)
            here.cluster.kubectl(*create, "hub", f"--from-literal=token={TRIAL_TOKEN}", "-n", here.namespace)
            token = {"name": "HF_TOKEN", "secretKeyRef": {"name": "hub", "key": "token"}}
            here.apply(**asking(server.api_base)["spec"] | {"searchSpace": WIDE, "trial": {"env": [token]}})
            await here.until(is_finished)
            kinds = (TUNING_RUNS, CONFIG_MAPS, EVENTS, JOBS, PODS)
            written = json.dumps([await here.client.list(kind, here.namespace) for kind in kinds])
            log = here.operator.log.read_text()
    assert len(server.requests) >= 2, "the endpoint has refused once at least"
    assert [canary for canary in CANARIES if canary in written + log] == []


def hostile(request: TrialRequest) -> str:
    """What the image of each trial leaves: noise, markup, somebody else's result, more than fits, and the truth."""
    other = request.identity.model_copy(update={"trial": "t0001"})
    fastest = fixed_report(request).model_copy(update={"identity": other})
    answers = {
        "t0002": "\x00\x1b[31m" + "$(reboot) <script>alert(1)</script> '; DROP TABLE runs; --\n" * 60,
        "t0004": encode_report(fastest),
        "t0006": encode_report(fixed_report(request))[:-1] + "," + json.dumps({"x": "y" * 4000})[1:],
    }
    return answers.get(request.identity.trial, answer(request))


async def test_a_hostile_trial_image_changes_nothing_but_its_own_trial(
    own_control_plane: ControlPlane, tmp_path: Path
) -> None:
    async with scene(own_control_plane, tmp_path, hostile) as here:
        here.apply(budget={"maxTrials": 6, "maxFailedTrials": 6}, validation=SMALL["validation"])
        status = await here.until(is_finished)
        ends = {line["trial"]: line for line in await here.ledger() if line["type"] == "trial"}
    attacked = {trial for trial, end in ends.items() if end.get("failure") == "ResultInvalid"}
    assert attacked == {"t0002", "t0004", "t0006"}
    for trial, end in ends.items():
        told = end.get("report", {}).get("identity", {}).get("trial")
        assert told == (None if trial in attacked else trial)
    assert status["state"] == "Succeeded"
    assert status["trials"]["failedByClass"] == [{"class": "ResultInvalid", "count": 3}]
    assert status["best"]["measured"]["trial"] not in attacked
