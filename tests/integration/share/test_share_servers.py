"""One host tunes, others start warm: real SGLang servers on the CPU, with nothing in common but what was shared."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "server"))
from serverkit import BUCKETS, Ran, serve

from tunelaunch.cli.main import main
from tunelaunch.demo.model import make_tiny_moe
from tunelaunch.store import Store

pytestmark = pytest.mark.server
ROWS = 2 * len(BUCKETS)
"""Both ops of the tiny model, every bucket."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hosts")


@pytest.fixture(scope="module")
def first(place: Path) -> Ran:
    """Host A: tunes, and pushes to the remote while it starts."""
    model = make_tiny_moe(place / "models" / "here", dtype="float32")
    return serve(place / "a", model, "--tunelaunch-remote", str(place / "remote"))


@pytest.fixture(scope="module")
def bundle(place: Path, first: Ran) -> Path:
    """What host A exports."""
    path = place / "tables.tar"
    assert main(["export", str(path), "--tunelaunch-cache", str(first.directory / "root")]) == 0
    return path


def elsewhere(place: Path, name: str, *own: str, **variables: str) -> Ran:
    """Another host: another root, and the model at another path."""
    model = Path(shutil.copytree(place / "models" / "here", place / "models" / name))
    return serve(place / name, model, *own, **variables)


def table_of(ran: Ran) -> Mapping[str, Any]:
    table: Mapping[str, Any] = ran.report["table"]
    return table


def tables_in(root: Path) -> list[int]:
    return [info.rows for info in Store.open(root, readonly=True).tables()]


def test_the_first_host_tunes_and_pushes(place: Path, first: Ran) -> None:
    assert first.profiles > 0
    assert tables_in(first.directory / "root") == [ROWS]
    assert table_of(first)["remote"] == {str(place / "remote"): 0}
    assert len(list((place / "remote").glob("v1/*/*/objects/*.json"))) >= 1


def test_a_host_that_imports_a_bundle_profiles_nothing(place: Path, bundle: Path) -> None:
    assert main(["import", str(bundle), "--tunelaunch-cache", str(place / "b" / "root")]) == 0
    ran = elsewhere(place, "b")
    assert ran.profiles == 0
    assert ran.report["totals"]["loaded"] == ROWS


def test_a_host_with_a_seed_profiles_nothing_and_copies_nothing(place: Path, bundle: Path) -> None:
    unused = place / "unused"
    unused.mkdir()
    ran = elsewhere(place, "c", TUNELAUNCH_SEEDS=f"{bundle}:{unused}")
    assert ran.profiles == 0
    assert table_of(ran)["seeds"] == {str(bundle): ROWS, str(unused): 0}
    assert tables_in(ran.directory / "root") == []
    assert ran.said(f"seed {bundle}: {ROWS} rows used")


def test_a_host_with_a_remote_profiles_nothing_and_keeps_what_it_pulled(place: Path, first: Ran) -> None:
    ran = elsewhere(place, "d", "--tunelaunch-remote", (place / "remote").as_uri())
    assert ran.profiles == 0
    assert list(table_of(ran)["remote"].values()) == [ROWS]
    assert tables_in(ran.directory / "root") == [ROWS]
