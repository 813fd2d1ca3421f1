"""Writes what of charts/argo-cd is made from code: `make docs` calls it, a unit test compares.

The Lua scripts and the expectations in `health_test.yaml` and `action_test.yaml` are written by hand. The layout is
that of Argo CD's own `resource_customizations`, which the scripts could be contributed to as they are.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support.cluster.paths import REPOSITORY
from tests.support.tuning_run_states import states
from tunewright.adapters.kube.labels import SUSPEND
from tunewright.adapters.kube.spec.tuning_run import GROUP, KIND

Document = dict[str, Any]

FOLDER = REPOSITORY / "charts" / "argo-cd"
CUSTOMIZATIONS = FOLDER / "resource_customizations" / GROUP / KIND
ACTIONS = ("suspend", "resume", "stop")
_GENERATED = "# Made from resource_customizations/ by `make docs`; do not edit.\n"
_PATCH = "# kubectl --namespace argocd patch configmap argocd-cm --patch-file charts/argo-cd/argocd-cm.yaml\n"
_VALUES = "# Values for the community's argo-cd chart: helm upgrade argocd argo/argo-cd --reuse-values --values …\n"


def files() -> Mapping[Path, str]:
    """Return the text of every generated file."""
    runs = states()
    settings = argocd_settings()
    patch = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "argocd-cm", "labels": {"app.kubernetes.io/part-of": "argocd"}},
        "data": settings,
    }
    made = {
        FOLDER / "argocd-cm.yaml": _GENERATED + _PATCH + _text(patch),
        FOLDER / "values.yaml": _GENERATED + _VALUES + _text({"configs": {"cm": settings}}),
    }
    made |= {CUSTOMIZATIONS / "testdata" / f"{name}.yaml": _compact(run) for name, run in runs.items()}
    return made | {
        CUSTOMIZATIONS / "actions" / "testdata" / f"{name}.yaml": _compact(run)
        for name, run in _after_actions(runs).items()
    }


def argocd_settings() -> dict[str, str]:
    """Return the keys of argocd-cm that hold the scripts."""
    actions = {
        "discovery.lua": _script("actions", "discovery.lua"),
        "definitions": [{"name": name, "action.lua": _script("actions", name, "action.lua")} for name in ACTIONS],
    }
    return {
        f"resource.customizations.health.{GROUP}_{KIND}": _script("health.lua"),
        f"resource.customizations.actions.{GROUP}_{KIND}": _text(actions),
    }


def _after_actions(runs: Mapping[str, Document]) -> dict[str, Document]:
    return {
        "validating-suspended": _annotated(runs["validating"], {SUSPEND: "true"}),
        "suspended-before-start-resumed": _annotated(runs["suspended-before-start"], {SUSPEND: "false"}),
        "suspended-by-annotation-resumed": runs["suspended-by-annotation"]
        | {"metadata": runs["suspended-by-annotation"]["metadata"] | {"annotations": {}}},
        "validating-stopped": runs["validating"] | {"spec": runs["validating"]["spec"] | {"stop": True}},
    }


def _annotated(run: Document, annotations: Mapping[str, str]) -> Document:
    metadata = run["metadata"]
    return run | {"metadata": metadata | {"annotations": metadata["annotations"] | annotations}}


def _script(*names: str) -> str:
    return CUSTOMIZATIONS.joinpath(*names).read_text()


class _Dumper(yaml.SafeDumper):
    """Scripts as blocks, and no anchors: people read these files."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def _text(document: object) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=100_000)


def _compact(document: object) -> str:
    """Return it with innermost mappings on one line."""
    return yaml.safe_dump(document, default_flow_style=None, sort_keys=False, width=100_000)


def main() -> None:
    """Write all files."""
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
