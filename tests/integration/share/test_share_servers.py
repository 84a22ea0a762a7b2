"""One host tunes, others start warm: real SGLang servers on the CPU, with nothing in common but what was shared."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "server"))
from serverkit import BUCKETS, Host, Ran, serve

from tunelaunch.cli.main import main
from tunelaunch.demo.model import make_tiny_moe
from tunelaunch.store import Store

pytestmark = pytest.mark.server
REPOSITORY = Path(__file__).resolve().parents[3]
ROWS = 2 * len(BUCKETS)
"""Both ops of the tiny model, every bucket."""


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Not pytest's own place, which other users cannot enter."""
    directory = Path(tempfile.mkdtemp(prefix="tunelaunch-hosts-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


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


def elsewhere(place: Path, name: str, *own: str, host: Host | None = None, **variables: str) -> Ran:
    """Another host: another root, and the model at another path; with ``host``, another user and host name as well."""
    model = Path(shutil.copytree(place / "models" / "here", place / "models" / name))
    return serve(place / name, model, *own, host=host, **variables)


def another_host() -> Host | None:
    """A host with a user of its own, where this process may make one and that user can run this interpreter."""
    ways = {Path(path) for path in (sys.prefix, sys.base_prefix, REPOSITORY)}
    open_to_all = all(way.stat().st_mode & 0o001 for path in ways for way in (path, *path.parents))
    return Host("node-b", 65534) if os.geteuid() == 0 and open_to_all else None


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
    host = another_host()
    ran = elsewhere(place, "b", host=host)
    assert ran.profiles == 0
    assert ran.report["totals"]["loaded"] == ROWS
    if host is not None:
        assert {path.owner() for path in ran.directory.glob("root/v1/reports/*")} == {"nobody"}


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
