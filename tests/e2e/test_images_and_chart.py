"""The images of the Dockerfile, and the operator as people install it: by the chart, in a Pod, with its own rights."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

import tunewright
from tests.e2e.test_tuning_run import (
    EXAMPLE,
    RUN_SECONDS,
    Document,
    apply_example,
    assert_pods_asked_for_gpus,
    exported,
    finished_trials,
    status_of,
)
from tests.support.cluster.image_build import ImageBuilder
from tests.support.cluster.images import BASE_IMAGE
from tests.support.cluster.node import Node
from tests.support.cluster.paths import REPOSITORY
from tests.support.cluster.reporting import or_skip
from tests.support.cluster.waiting import wait_until
from tests.support.cluster.workspace import Workspace
from tests.support.helm import CHART, PREVIOUS_CHART, helm
from tests.support.image_contents import ImageContents, normalised, read_image
from tunewright.planner.records import TrialFinished
from tunewright.planner.replay import replay

DOCKERFILE = REPOSITORY / "Dockerfile"
OPERATOR_IMAGE = "localhost/tunewright-operator:test"
BASES = {name: BASE_IMAGE for name in ("BUILDER_BASE_IMAGE", "OPERATOR_BASE_IMAGE", "TRIAL_BASE_IMAGE")}
ARGUMENTS = BASES | {"VERSION": tunewright.__version__, "REVISION": "0123abc", "CREATED": "2026-11-30T05:00:00Z"}
FRAMEWORKS = {"torch", "torchvision", "nvidia-nccl-cu13", "triton"}
UNWANTED = {
    "a compiler": r"usr/(local/)?bin/((\S+-)?(gcc|g\+\+|cc|c\+\+|clang|ld|make|cmake|nvcc|hipcc)(-[\d.]+)?)$",
    "a cache of pip": r"(.*/)?\.cache/pip/",
    "our sources, tests or wheels": r"(source|wheels|build)/|.*/tunewright/(tests|benchmarks|docs)/",
    "what belongs to a person": r"(.*/)?(\.git|\.ssh|\.aws|\.kube|\.docker)/|.*/(\.netrc|\.pypirc|id_rsa|kubeconfig)$",
    "pip's settings of the building machine": r"(etc/pip\.conf|.*/\.config/pip/.*|.*/\.pip/.*)$",
}
PRIVATE_KEY = re.compile(rb"-----BEGIN ([A-Z]+ )?PRIVATE KEY-----\s+[A-Za-z0-9+/=]{60}")


@pytest.fixture(scope="module")
def build() -> Iterator[Callable[[str], Path]]:
    """Builds one target and returns its archive. Needs no node."""
    workspace = Workspace.create()
    builder = ImageBuilder(workspace.make("buildah"))

    def built(target: str) -> Path:
        tag = f"localhost/tunewright-{target}:test"
        return or_skip(lambda: builder.build(DOCKERFILE, REPOSITORY, target, ARGUMENTS, tag))

    yield built
    workspace.remove()


@pytest.fixture(scope="module")
def operator_archive(build: Callable[[str], Path]) -> Path:
    return build("operator")


@pytest.fixture(scope="module")
def operator_image(node: Node, operator_archive: Path) -> str:
    node.import_image(operator_archive)
    return OPERATOR_IMAGE


@pytest.fixture(scope="module")
def operator_contents(operator_archive: Path) -> ImageContents:
    return read_image(operator_archive)


@pytest.fixture(scope="module")
def trial_contents(build: Callable[[str], Path]) -> ImageContents:
    return read_image(build("trial"))


@pytest.fixture(params=["operator_contents", "trial_contents"])
def contents(request: pytest.FixtureRequest) -> ImageContents:
    found: ImageContents = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("what", UNWANTED)
def test_an_image_has_nothing_that_only_its_build_needs(contents: ImageContents, what: str) -> None:
    pattern = re.compile(UNWANTED[what])
    assert [path for path, size in contents.files.items() if pattern.match(path) and size] == []


def test_an_image_has_no_private_key_and_no_root_user(contents: ImageContents) -> None:
    assert [path for path, text in contents.texts.items() if PRIVATE_KEY.search(text)] == []
    assert contents.configuration["User"] == "65532:65532"


def test_an_image_says_what_it_is(contents: ImageContents) -> None:
    labels = {
        key.removeprefix("org.opencontainers.image."): value for key, value in contents.configuration["Labels"].items()
    }
    assert labels["title"] in ("tunewright-operator", "tunewright-trial")
    assert labels["description"]
    assert (labels["licenses"], labels["version"]) == ("Apache-2.0", tunewright.__version__)
    assert (labels["revision"], labels["created"]) == ("0123abc", "2026-11-30T05:00:00Z")
    assert labels["base.name"] == BASE_IMAGE


def test_the_operator_image_is_small_and_has_no_framework(operator_contents: ImageContents) -> None:
    names = {name for name, _ in operator_contents.packages()}
    assert {"kopf", "kubernetes", "litellm", "dspy", "tunewright"} <= names
    assert names & FRAMEWORKS == set()
    assert operator_contents.size_bytes < 1_000_000_000


def test_the_trial_image_has_our_wheel_and_no_framework_of_ours(trial_contents: ImageContents) -> None:
    names = {name for name, _ in trial_contents.packages()}
    assert {"tunewright", "numpy", "pydantic", "pyyaml"} <= names
    assert names & (FRAMEWORKS | {"kopf", "litellm", "kubernetes"}) == set()
    assert any(path.endswith("tunewright_trial/__main__.py") for path in trial_contents.files)


@pytest.mark.parametrize("image", ["operator", pytest.param("trial", marks=pytest.mark.long)])
def test_the_bill_of_materials_lists_what_is_in_the_image(
    build: Callable[[str], Path], image: str, request: pytest.FixtureRequest
) -> None:
    contents: ImageContents = request.getfixturevalue(f"{image}_contents")
    output = read_image(build(f"{image}-sbom"))
    (name,) = output.files
    assert name == f"tunewright-{image}.cdx.json"
    bill = json.loads(output.texts[name])
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    listed = {(normalised(one["name"]), one["version"]) for one in bill["components"]}
    assert ("tunewright", tunewright.__version__) in listed
    mine = {name for name in contents.packages() if image == "trial" or name[0] not in BASES_OWN}
    assert mine <= listed


BASES_OWN = {"pip", "setuptools", "wheel"}
"""Of the base's own Python, which the operator does not use."""


def test_the_installed_operator_survives_an_upgrade_measures_a_run_and_leaves_its_results(
    node: Node, node_namespace: str, operator_image: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The previous chart is installed, and upgraded to this one in mid-run; Pods must meet the restricted standard."""
    kubectl = node.cluster.kubectl
    kubectl("label", "namespace", node_namespace, "pod-security.kubernetes.io/enforce=restricted")
    place = ["--kubeconfig", str(node.cluster.kubeconfig), "--namespace", node_namespace]
    waited = [*place, "--wait", "--timeout", "5m"]
    repository, tag = operator_image.rsplit(":", 1)
    given = ["--set", f"image.repository={repository},image.tag={tag},watch.namespaces={{{node_namespace}}}"]
    helm("install", "tunewright", PREVIOUS_CHART, *waited, *given, "--take-ownership", "--force-conflicts")
    try:
        apply_example(node, node_namespace, budget={"maxTrials": 3}, validation={"topK": 1, "steps": 3})
        wait_until(lambda: finished_trials(node, node_namespace), "a trial is over", RUN_SECONDS, every=0.5)
        before = {job["metadata"]["uid"] for job in finished_trials(node, node_namespace)}
        helm("upgrade", "tunewright", CHART, *waited, "--reset-then-reuse-values", "--set", OWN_NETWORK)
        assert_own_presets_are_known(node, node_namespace)
        wait_until(lambda: is_finished(node, node_namespace), "the run is finished", RUN_SECONDS, every=0.5)
        tested = helm("test", "tunewright", *place)
    finally:
        helm("uninstall", "tunewright", *place)
    status = status_of(node, node_namespace)
    with capsys.disabled():
        print("\n" + yaml.safe_dump({"answer": status["answer"]}) + tested)
    assert status["state"] == "Succeeded"
    assert status["trials"]["failed"] == 0
    assert status["best"]["measured"]["tokensPerSecondPerGPU"] > 0
    assert_pods_asked_for_gpus(node, node_namespace)
    assert_nothing_was_lost(node, node_namespace, before)
    assert kubectl.get("configmap", "tiny-result", namespace=node_namespace)["data"]["result.json"]


OWN_NETWORK = 'catalog.networks.ours=network: {"name": "ours"\\, "bytesPerSecondPerGPU": 1e9}'


def assert_own_presets_are_known(node: Node, namespace: str) -> None:
    """What the chart mounts, the operator reads: it accepts a run that names it. Nothing is started."""
    run: Document = yaml.safe_load(EXAMPLE.read_text())
    run["metadata"]["name"] = "own"
    run["spec"] |= {"suspend": True, "trial": {"devicePreset": "cpu", "image": "any"}}
    run["spec"]["cluster"]["network"] = {"preset": "ours"}
    node.cluster.kubectl.apply(run, namespace=namespace)

    def is_accepted() -> bool:
        status = node.cluster.kubectl.get("tuningrun", "own", namespace=namespace).get("status", {})
        return any((c["type"], c["status"]) == ("Accepted", "True") for c in status.get("conditions", ()))

    wait_until(is_accepted, "the run that names a preset of one's own is accepted")
    node.cluster.kubectl("delete", "tuningrun", "own", "--namespace", namespace)


def assert_nothing_was_lost(node: Node, namespace: str, before: set[str]) -> None:
    """Each trial ran once, some of them before the upgrade, and every decision follows from the ledger."""
    records = exported(node, namespace)
    assert replay(records) is None
    ended = [(record.trial, record.attempt) for record in records if isinstance(record, TrialFinished)]
    assert len(ended) == len(set(ended))
    jobs = node.cluster.kubectl.get("jobs", namespace=namespace)["items"]
    assert len(jobs) == len(ended)
    assert before < {job["metadata"]["uid"] for job in jobs}


def is_finished(node: Node, namespace: str) -> bool:
    conditions = status_of(node, namespace).get("conditions", ())
    return any(c["type"] == "Finished" and c["status"] == "True" for c in conditions)
