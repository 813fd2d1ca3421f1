"""The structure that the decisions promise: source roots, layers, small files, sources for numbers, live links."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "operator").rglob("*.py"), *(ROOT / "trial_runner").rglob("*.py")])
CATALOG = sorted((ROOT / "operator/tunewright/domain/catalog").rglob("*.yaml"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MOST_LINES = 300
TORCH_IMPORT = re.compile(r"^\s*(from|import) torch\b", re.MULTILINE)


@pytest.mark.parametrize("root", ["operator", "trial_runner"])
def test_source_roots_are_no_packages(root: str) -> None:
    loose = [path.name for path in (ROOT / root).iterdir() if path.suffix == ".py"]
    assert loose == [], f"{root}/ must hold packages only"


def test_no_package_hides_a_standard_library_module() -> None:
    packages = {path.name for root in ("operator", "trial_runner") for path in (ROOT / root).iterdir() if path.is_dir()}
    assert packages & sys.stdlib_module_names == set()


def test_imports_go_downwards_only() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_are_small_and_say_what_they_hold(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= MOST_LINES
    assert text.startswith('"""'), "a module opens with what it holds and who calls it"


def test_torch_lives_in_the_trial_program_only() -> None:
    users = [path for path in SOURCES if TORCH_IMPORT.search(path.read_text())]
    assert users
    assert all(path.is_relative_to(ROOT / "trial_runner") for path in users)


@pytest.mark.parametrize("path", CATALOG, ids=lambda path: path.stem)
def test_every_catalog_file_names_its_sources(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    places = [document, *(part for part in document.values() if isinstance(part, dict))]
    assert any(place.get("sources") for place in places), f"{path.name} has numbers without a source"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert missing == []


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs/adr"
    listed = set(re.findall(r"\]\((\d{4}-[^)]+\.md)\)", (folder / "README.md").read_text()))
    assert listed == {path.name for path in folder.glob("[0-9]*.md")}
