"""The chart, rendered or installed with a real helm: 4, and 3 where a test asks for it."""

import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.support.cluster.binaries import KUBERNETES_VERSION, ensure_go_tool
from tests.support.cluster.paths import REPOSITORY

CHART = REPOSITORY / "charts" / "tunewright"
PREVIOUS_CHART = REPOSITORY / "tests" / "golden" / "chart" / "previous" / "tunewright-0.1.0.tgz"
"""What people have installed before they upgrade. Replaced by the chart of each release."""
WITHOUT_CLUSTER = ("--kube-version", KUBERNETES_VERSION)
"""For `helm template`: a helm that was built from its module alone supposes an ancient Kubernetes."""


def helm(*arguments: str | Path, program: str = "helm") -> str:
    """Run helm (`helm3`: the one before) and return what it printed; its complaint becomes the error."""
    done = ran(*arguments, program=program)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*arguments: str | Path, program: str = "helm") -> str:
    """Return what helm says when it refuses."""
    done = ran(*arguments, program=program)
    assert done.returncode != 0, done.stdout
    return done.stderr


def ran(*arguments: str | Path, program: str = "helm") -> subprocess.CompletedProcess[str]:
    """Run helm to its end."""
    words = [str(ensure_go_tool(program)), *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)


def rendered(namespace: str, *arguments: str, program: str = "helm") -> list[dict[str, Any]]:
    """Return the objects of a release called tunewright."""
    place = ("--namespace", namespace, *WITHOUT_CLUSTER)
    text = helm("template", "tunewright", CHART, *place, *arguments, program=program)
    return [document for document in yaml.safe_load_all(text) if document]


def is_test_hook(document: dict[str, Any]) -> bool:
    """Tell whether an object exists only while `helm test` runs."""
    return (document["metadata"].get("annotations") or {}).get("helm.sh/hook") == "test"
