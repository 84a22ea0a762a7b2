"""Directories and mounts: real ones of this machine, and lines of ``/proc/mounts`` as other hosts have them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tunelaunch.doctor.check_places import check_places
from tunelaunch.doctor.findings import Severity
from tunelaunch.doctor.mounts import Mount, mount_of, read_mounts
from tunelaunch.doctor.places import OURS, Place, PlaceState, look, places
from tunelaunch.hosts.asked import default_directories

OTHER_HOST = r"""overlay / overlay rw,relatime,lowerdir=/a 0 0
proc /proc proc rw 0 0
tmpfs /tmp tmpfs rw 0 0
nas:/export/models /models nfs4 ro,vers=4.2 0 0
nas:/export/my\040caches /root/my\040caches nfs4 rw 0 0
/dev/nvme0n1 /models/fast xfs rw 0 0
s3fs /bucket fuse.s3fs rw 0 0
/dev/fuse /apps fuse.squashfuse ro 0 0
JuiceFS:vol /jfs fuse.juicefs rw 0 0
"""


@pytest.fixture
def mounts(tmp_path: Path) -> tuple[Mount, ...]:
    path = tmp_path / "mounts"
    path.write_text(OTHER_HOST)
    return read_mounts(path)


@pytest.mark.parametrize(
    ("path", "type_", "kind"),
    [
        ("/root/.cache", "overlay", "container"),
        ("/tmp/x", "tmpfs", "memory"),
        ("/models/current", "nfs4", "network"),
        ("/models/fast/a", "xfs", "local"),
        ("/models/faster", "nfs4", "network"),
        ("/root/my caches/t", "nfs4", "network"),
        ("/bucket/t", "fuse.s3fs", "network"),
        ("/apps/t", "fuse.squashfuse", "local"),
        ("/jfs", "fuse.juicefs", "network"),
    ],
)
def test_the_deepest_mount_counts(mounts: tuple[Mount, ...], path: str, type_: str, kind: str) -> None:
    found = mount_of(Path(path), mounts)
    assert found is not None
    assert (found.type, found.kind) == (type_, kind)


def test_the_real_mounts_of_this_machine_agree_with_the_kernel() -> None:
    mounts = read_mounts()
    root = mount_of(Path("/"), mounts)
    proc = mount_of(Path("/proc/self"), mounts)
    assert root is not None
    assert proc is not None
    assert (root.point, proc.point, proc.type) == ("/", "/proc", "proc")


def test_where_there_is_no_proc_nothing_is_known() -> None:
    assert read_mounts(Path("/proc/mounts/none")) == ()
    assert mount_of(Path("/x"), ()) is None


def test_looking_at_a_directory_leaves_nothing_behind(tmp_path: Path) -> None:
    state = look(Place(OURS, tmp_path, "TUNELAUNCH_CACHE_DIR", 1), read_mounts())
    assert (state.exists, state.problem) == (True, None)
    assert state.free_mib is not None
    assert state.mount is not None
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_not_there_is_judged_by_the_one_above(tmp_path: Path) -> None:
    state = look(Place("Triton", tmp_path / "a" / "b", "TRITON_CACHE_DIR", 1), ())
    assert (state.exists, state.problem) == (False, None)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        state = look(Place("FlashInfer", path, "FLASHINFER_WORKSPACE_BASE", 1), ())
        (found,) = check_places([state])
        assert found.severity is Severity.BLOCKING
        assert "is not a directory" in found.what


def test_a_place_of_the_kernel_cannot_be_written() -> None:
    state = look(Place(OURS, Path("/proc/tunelaunch"), "TUNELAUNCH_CACHE_DIR", 1), read_mounts())
    (found,) = check_places([state])
    assert found.severity is Severity.WARNING
    assert found.do.endswith("or set TUNELAUNCH_CACHE_DIR (now /proc/tunelaunch) to one")


def state_of(owner: str, variable: str, mount: Mount, free_mib: int = 100_000) -> PlaceState:
    return PlaceState(Place(owner, Path("/c/.cache/x"), variable, 512), True, None, free_mib, mount)


@pytest.mark.parametrize(
    ("owner", "type_", "severity", "words"),
    [
        ("FlashInfer", "nfs4", Severity.WARNING, "network file system (nfs4 at /c)"),
        (OURS, "nfs4", Severity.NOTE, "network file system"),
        ("SGLang", "overlay", Severity.NOTE, "in the layer of this container"),
        (OURS, "tmpfs", Severity.NOTE, "in memory"),
    ],
)
def test_the_kind_of_file_system_is_told(owner: str, type_: str, severity: Severity, words: str) -> None:
    variable = {"FlashInfer": "FLASHINFER_WORKSPACE_BASE", OURS: "TUNELAUNCH_CACHE_DIR"}.get(owner, "SGLANG_CACHE_DIR")
    (found,) = check_places([state_of(owner, variable, Mount("/c", type_))])
    assert found.severity is severity
    assert words in found.what
    if owner != OURS:
        assert "docker run -v /HOST/DIR:/c/.cache/x" in found.do
        assert variable in found.do


def test_flashinfers_variable_names_the_directory_above() -> None:
    (found,) = check_places([state_of("FlashInfer", "FLASHINFER_WORKSPACE_BASE", Mount("/", "overlay"))])
    assert "set FLASHINFER_WORKSPACE_BASE (now /c) to one" in found.do


def test_a_full_disk_is_a_warning_with_both_numbers() -> None:
    (found,) = check_places([state_of("SGLang", "SGLANG_CACHE_DIR", Mount("/", "ext4"), free_mib=3)])
    assert (found.id, found.severity) == ("place.sglang-cache-dir.full", Severity.WARNING)
    assert "3 MiB free, a first start can need 512 MiB" in found.what


def test_every_cache_is_looked_at_and_its_variable_moves_it(tmp_path: Path) -> None:
    defaults = default_directories({"HOME": "/h", "USER": "u"})
    assert defaults["FLASHINFER_WORKSPACE_BASE"] == "/h/.cache/flashinfer"
    assert defaults["TORCHINDUCTOR_CACHE_DIR"] == "/tmp/torchinductor_u"
    moved = {name: f"/moved/{name}" for name in defaults}
    found = default_directories({**moved, "HOME": "/h"})
    assert all(path.startswith(f"/moved/{name}") for name, path in found.items())
    listed = places(tmp_path, found)
    assert [place.variable for place in listed] == ["TUNELAUNCH_CACHE_DIR", *found]
    assert {place.owner for place in listed} == {OURS, "SGLang", "FlashInfer", "Triton", "torch.compile", "CUDA"}
    assert os.environ.get("FLASHINFER_WORKSPACE_BASE") != moved["FLASHINFER_WORKSPACE_BASE"]
