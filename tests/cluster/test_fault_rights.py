"""A right that is missing is named at start, and not met in the middle of a run."""

from pathlib import Path
from typing import Any

from tests.cluster.test_operator_rights import RULES, grant
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.namespaces import namespace_on
from tests.support.cluster.waiting import wait_until
from tests.support.forked_operator import ForkedOperator
from tests.support.kube_cluster import install_crd, kube_client
from tests.support.operator_scene import is_so
from tunewright.adapters.kube.client import KubeClient, Resource, connected
from tunewright.adapters.kube.rights import NEEDED, check_rights
from tunewright.errors import Forbidden

ROLES = Resource("/apis/rbac.authorization.k8s.io/v1", "roles")


def test_what_is_looked_for_is_what_the_chart_grants() -> None:
    granted = {(rule["apiGroups"][0], rule["resources"][0], tuple(rule["verbs"])) for rule in RULES}
    assert granted == set(NEEDED)


def without(rule: dict[str, Any], verb: str) -> list[dict[str, Any]]:
    others = [other for other in RULES if other is not rule]
    verbs = [word for word in rule["verbs"] if word != verb]
    return [*others, {**rule, "verbs": verbs}] if verbs else others


async def said(client: KubeClient, namespace: str) -> str:
    try:
        await check_rights(client, [namespace])
    except Forbidden as error:
        return str(error)
    return ""


async def test_each_right_that_is_taken_away_is_named(own_control_plane: ControlPlane, tmp_path: Path) -> None:
    install_crd(own_control_plane)
    with namespace_on(own_control_plane) as namespace:
        kubeconfig = grant(own_control_plane, namespace)
        async with kube_client(own_control_plane) as admin, connected(str(kubeconfig)) as client:
            for rule in RULES:
                for verb in rule["verbs"]:
                    await admin.patch(ROLES, namespace, "tunewright", {"rules": without(rule, verb)})
                    group = rule["apiGroups"][0]
                    named = f"{verb} {rule['resources'][0]}{f'.{group}' if group else ''} in namespace {namespace}"

                    async def is_named(named: str = named) -> bool:
                        return named in await said(client, namespace)

                    await is_so(is_named)
            operator = ForkedOperator(own_control_plane, namespace, tmp_path / "log", kubeconfig)
            with operator:
                wait_until(lambda: not operator.is_running, "the operator ends")
                assert operator.stop() != 0
            assert f"may not create events in namespace {namespace}" in operator.log.read_text()
            await admin.patch(ROLES, namespace, "tunewright", {"rules": RULES})

            async def nothing_is_missing() -> bool:
                return not await said(client, namespace)

            await is_so(nothing_is_missing)
