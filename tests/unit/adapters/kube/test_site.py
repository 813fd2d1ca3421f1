"""What the owners of a cluster set for all runs."""

from typing import Any

import pytest

from tests.support.kube_documents import A_RUN, a_request, a_tuning_run
from tunewright.adapters.kube.acceptance import Accepted, accept
from tunewright.adapters.kube.manifests import trial_job
from tunewright.adapters.kube.problem_reader import NotAccepted
from tunewright.adapters.kube.site import on_site
from tunewright.adapters.kube.spec.site import Site
from tunewright.adapters.kube.spec.trial import PodSpec
from tunewright.controller.settings import OperatorSettings
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.errors import InvalidInput

LLM = {"model": "openai/x", "apiBase": "https://llm.example.com/v1", "apiKeySecretRef": {"name": "llm", "key": "key"}}


def accepted(**spec: Any) -> Accepted:
    document = a_tuning_run(**spec)
    document["metadata"]["namespace"] = "team-a"
    return accept(document, shipped_catalog(), default_image="trial:1")


def judged(site: dict[str, Any], **spec: Any) -> Accepted:
    return on_site(accepted(**spec), Site.parse(site), "team-a")


def refusal(site: dict[str, Any], **spec: Any) -> str:
    with pytest.raises(NotAccepted) as caught:
        judged(site, **spec)
    assert caught.value.reason == "NotPermitted"
    return str(caught.value)


def test_a_site_that_says_nothing_changes_nothing() -> None:
    plain = accepted()
    assert on_site(plain, Site(), "team-a").pod_options == plain.pod_options


def test_trials_have_the_sites_values_where_the_run_has_the_schemas() -> None:
    pod = {"queueName": "tuning", "startDeadlineSeconds": 600, "nodeSelector": {"pool": "a"}, "capacityCheck": "Warn"}
    options = judged({"trial": {"pod": pod}}, pod={"startDeadlineSeconds": 900}).pod_options
    assert options.pod == PodSpec.parse({**pod, "startDeadlineSeconds": 900})


def test_a_default_reaches_the_job_and_not_the_spec_that_the_ledger_digests() -> None:
    site = {"trial": {"pod": {"imagePullSecrets": [{"name": "regcred"}], "queueName": "tuning"}}}
    found = judged(site)
    assert found.document == accepted().document
    job = trial_job(A_RUN, a_request(), found.pod_options)
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "tuning"
    assert job["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "regcred"}]


def test_a_runs_own_variable_wins_over_the_sites() -> None:
    env = [{"name": "NCCL_IB_GID_INDEX", "value": "1"}, {"name": "USING_AINIC", "value": "1"}]
    own = [{"name": "NCCL_IB_GID_INDEX", "value": "3"}]
    options = judged({"trial": {"env": env}}, trial={"env": own}).pod_options
    assert {one.name: one.value for one in options.trial.env} == {"USING_AINIC": "1", "NCCL_IB_GID_INDEX": "3"}


@pytest.mark.parametrize(
    "image", ["registry.example.com/ml/trial:1", "registry.example.com/ml:1", "registry.example.com/ml@sha256:ab"]
)
def test_an_image_below_an_allowed_name_is_taken(image: str) -> None:
    assert judged({"allow": {"images": ["registry.example.com/ml"]}}, trial={"image": image}).pod_options.image == image


@pytest.mark.parametrize("image", ["registry.example.com/mlops/trial:1", "docker.io/trial", "registry.example.com"])
def test_any_other_image_is_named_with_what_is_allowed(image: str) -> None:
    said = refusal({"allow": {"images": ["registry.example.com/ml"]}}, trial={"image": image})
    assert said.startswith(f"spec.trial.image: '{image}': is not permitted")
    assert said.endswith("choose from registry.example.com/ml")


def test_the_default_image_needs_no_permission() -> None:
    assert judged({"allow": {"images": ["registry.example.com/ml"]}}).pod_options.image == "trial:1"


@pytest.mark.parametrize(
    ("base", "allowed"),
    [("https://llm.example.com/v1", True), ("https://llm.example.com/v1@thief.example.com", False), (None, False)],
)
def test_addresses_are_allowed_as_a_whole_only(base: str | None, allowed: bool) -> None:
    site = {"allow": {"llmAddresses": ["https://llm.example.com/v1"]}}
    llm = {key: value for key, value in {**LLM, "apiBase": base}.items() if value is not None}
    if allowed:
        assert judged(site, llm=llm).llm is not None
    else:
        assert "spec.llm.apiBase" in refusal(site, llm=llm)


def test_everything_that_is_not_permitted_is_named_at_once() -> None:
    volumes = [{"name": "data", "claimName": "secrets-of-others", "mountPath": "/data"}]
    site = {"allow": {"images": ["a"], "llmModels": ["anthropic"], "claims": ["hf-cache"]}}
    said = refusal(site, trial={"image": "b", "volumes": volumes}, llm=LLM)
    for field in ("spec.trial.image", "spec.llm.model", "spec.trial.volumes.0.claimName"):
        assert field in said


def test_where_a_namespaces_cost_is_limited_a_run_needs_prices() -> None:
    site = {"namespaceLimits": [{"namespace": "team-a", "maxLLMCostUSD": "50"}]}
    assert "spec.llm.price" in refusal(site, llm=LLM)
    price = {"inputUSDPerMillionTokens": "1", "outputUSDPerMillionTokens": "2"}
    assert judged(site, llm={**LLM, "price": price}).llm is not None
    assert judged(site, explore={"strategy": "Surrogate"}).llm is None
    elsewhere = {"namespaceLimits": [{"namespace": "team-b", "maxLLMCostUSD": "50"}]}
    assert judged(elsewhere, llm=LLM).llm is not None


def test_the_operator_reads_the_site_from_its_environment() -> None:
    read = OperatorSettings.from_environment({"TUNEWRIGHT_SITE": '{"allow": {"claims": ["hf-cache"]}}'}).site
    assert read.allow.claims == ("hf-cache",)
    assert OperatorSettings.from_environment({}).site == Site()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "TUNEWRIGHT_SITE.*must be JSON"),
        ('{"trial": {"pod": {"queue": "x"}}}', "TUNEWRIGHT_SITE.trial.pod.queue: .*is not a known field"),
        ('{"namespaceLimits": [{"namespace": "a"}, {"namespace": "a"}]}', "namespaceLimits: .*a is given twice"),
    ],
)
def test_a_site_that_is_wrong_is_named(text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        OperatorSettings.from_environment({"TUNEWRIGHT_SITE": text})
