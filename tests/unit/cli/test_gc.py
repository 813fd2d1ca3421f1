from pathlib import Path

import pytest
from typer.testing import CliRunner

from tunewright.cli.app import app
from tunewright.errors import ClusterError, InvalidInput


def test_kept_alone_removes_nothing_and_is_refused() -> None:
    with pytest.raises(InvalidInput, match="--kept"):
        CliRunner().invoke(app, ["gc", "--kept"], catch_exceptions=False)


def test_without_a_cluster_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ClusterError, match="no cluster"):
        CliRunner().invoke(app, ["gc"], catch_exceptions=False)
