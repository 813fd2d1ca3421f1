"""Holds a run against what the cluster's owners set, and gives its trials their defaults. Pure; called by `wiring`."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tunewright.adapters.kube.acceptance import Accepted
from tunewright.adapters.kube.problem_reader import NotAccepted
from tunewright.adapters.kube.spec.site import Allowed, Site, TrialDefaults
from tunewright.adapters.kube.spec.trial import PodSpec, TrialSpec
from tunewright.adapters.kube.spec.tuning_run import TuningRunSpec
from tunewright.errors import Problem

_ENDS = "/:@"


def on_site(accepted: Accepted, site: Site, namespace: str) -> Accepted:
    """Return the run with the site's defaults; raise `NotAccepted` with everything that the site does not permit."""
    problems = [*_not_allowed(accepted.document.spec, site.allow), *_unpriced(accepted, site, namespace)]
    if problems:
        raise NotAccepted("NotPermitted", problems)
    options = accepted.pod_options
    pod, trial = pod_with_defaults(options.pod, site.trial.pod), _with_env(options.trial, site.trial)
    return replace(accepted, pod_options=replace(options, pod=pod, trial=trial))


def pod_with_defaults(pod: PodSpec, defaults: PodSpec) -> PodSpec:
    """Return `pod` with the site's value in each field that has the schema's default.

    The API server fills in the schema's defaults, so what a run leaves out and what it gives with that value are one.
    """
    plain = PodSpec()
    fields = [name for name in PodSpec.model_fields if getattr(pod, name) == getattr(plain, name)]
    return pod.model_copy(update={name: getattr(defaults, name) for name in fields})


def _with_env(trial: TrialSpec, defaults: TrialDefaults) -> TrialSpec:
    own = {variable.name for variable in trial.env}
    return trial.model_copy(update={"env": (*(one for one in defaults.env if one.name not in own), *trial.env)})


def _not_allowed(spec: TuningRunSpec, allow: Allowed) -> Iterator[Problem]:
    image, llm = spec.trial.image, spec.llm
    if image is not None and not _is_below(image, allow.images):
        yield _refused("spec.trial.image", image, allow.images)
    if llm is not None and not _is_below(llm.model, allow.llm_models):
        yield _refused("spec.llm.model", llm.model, allow.llm_models)
    if llm is not None and allow.llm_addresses and llm.api_base not in allow.llm_addresses:
        yield _refused("spec.llm.apiBase", llm.api_base, allow.llm_addresses)
    for number, volume in enumerate(spec.trial.volumes):
        if allow.claims and volume.claim_name not in allow.claims:
            yield _refused(f"spec.trial.volumes.{number}.claimName", volume.claim_name, allow.claims)


def _is_below(name: str, allowed: Iterable[str]) -> bool:
    """Tell whether a name is one of these, or goes on after one where a name may end."""
    wanted = tuple(allowed)
    return not wanted or any(
        name == one or (name.startswith(one) and (one[-1] in _ENDS or name[len(one)] in _ENDS)) for one in wanted
    )


def _refused(field: str, value: object, allowed: Iterable[str]) -> Problem:
    return Problem(field, value, f"is not permitted on this cluster: choose from {', '.join(allowed)}")


def _unpriced(accepted: Accepted, site: Site, namespace: str) -> Iterator[Problem]:
    limit, llm = site.llm_limit(namespace), accepted.llm
    if limit is not None and llm is not None and llm.price is None:
        remedy = f"is required where the LLMs of a namespace may cost {limit:g} USD: give the endpoint's prices"
        yield Problem("spec.llm.price", None, remedy)
