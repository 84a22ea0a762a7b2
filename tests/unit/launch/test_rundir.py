"""Run directories: created private, and removed when their process is known to be gone."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tunelaunch import rundir
from tunelaunch.errors import TunelaunchError

STAMP = "20260101T000000Z"


def dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        return process.pid


def made(parent: Path, pid: int, suffix: str = "0000") -> Path:
    path = parent / f"{STAMP}-{pid}-{suffix}"
    rundir.create(path)
    (path / "receipts" / "rank-0.json").write_text("{}")
    return path


def test_a_start_removes_what_dead_ones_left_and_nothing_else(tmp_path: Path) -> None:
    parent = tmp_path / "p"
    alive = made(parent, os.getpid())
    for name in ("cache", "notes.txt", f"{STAMP}-x-0000"):
        (parent / name).mkdir()
    dead = made(parent, dead_pid())
    rundir.create(parent / f"{STAMP}-{os.getpid()}-0001")
    assert not dead.exists()
    assert alive.exists()
    assert {"cache", "notes.txt", f"{STAMP}-x-0000"} <= {p.name for p in parent.iterdir()}


def test_another_pid_namespace_is_left_alone(tmp_path: Path) -> None:
    dead = made(tmp_path / "p", dead_pid())
    (dead / "pid-namespace").write_text("pid:[1]")
    assert rundir.prune(tmp_path / "p") == []


def test_a_link_with_the_name_of_a_run_directory_is_not_followed(tmp_path: Path) -> None:
    parent = tmp_path / "p"
    target = made(tmp_path / "q", dead_pid())
    parent.mkdir()
    (parent / target.name).symlink_to(target)
    assert rundir.prune(parent) == []
    assert target.exists()


def test_a_start_looks_at_a_bounded_number(tmp_path: Path) -> None:
    parent, pid = tmp_path / "p", dead_pid()
    parent.mkdir()
    for number in range(rundir.PRUNE_AT_MOST + 5):
        path = parent / f"{STAMP}-{pid}-{number:04x}"
        path.mkdir()
        (path / "pid-namespace").write_text(str(Path("/proc/self/ns/pid").readlink()))
    assert len(rundir.prune(parent)) == rundir.PRUNE_AT_MOST
    assert len(list(parent.iterdir())) == 5


def test_a_parent_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(TunelaunchError, match="not a directory of this user"):
        rundir.create(tmp_path / "link" / f"{STAMP}-1-0000")


def test_an_unusable_runtime_directory_is_passed_over(tmp_path: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(tmp_path / "none"), "TMPDIR": str(tmp_path)}
    assert rundir.base_dir(environ) == tmp_path


def test_launch_ids_sort_by_time_and_are_their_own_pattern() -> None:
    first = rundir.new_launch_id(datetime(2026, 1, 2, tzinfo=timezone.utc), 1)
    second = rundir.new_launch_id(datetime(2026, 1, 3, tzinfo=timezone.utc), 1)
    assert first < second
    assert rundir.LAUNCH_ID.match(first)
