"""Many writers at once, and several users: real processes on one directory."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "unit" / "share"))
from sharekit import REPOSITORY, TID, key, publish, row, rows_at, snapshot, table

from tunelaunch.share.places import DirectoryPlace
from tunelaunch.share.remote import read_remote, write_remote
from tunelaunch.share.seeds import read_seeds
from tunelaunch.share.signing import Trust
from tunelaunch.store import Store

WRITERS = 32
ROWS = 5
GROUP = 45_000
FIRST, SECOND = 45_001, 45_002

PUSH = """
import sys
sys.path[:0] = sys.argv[1:3]
from sharekit import row, table
from tunelaunch.share.places import open_place
from tunelaunch.share.remote import write_remote
from tunelaunch.share.signing import Trust
url, writer = sys.argv[3], int(sys.argv[4])
sys.stdin.read()
for number in range(5):
    write_remote(open_place(url), table([row(writer * 5 + number), row(100000)]), Trust())
"""

AS_USER = """
import os, sys
sys.path[:0] = sys.argv[1:3]
from pathlib import Path
from sharekit import publish, row, rows_at, table, TID
from tunelaunch.cli import import_, main, sharing
from tunelaunch.share import importing, places, remote, seeds, sources
from tunelaunch.share.signing import Trust
import tempfile
with tempfile.TemporaryDirectory() as name:
    publish(Path(name), [row(1)])
    rows_at(Path(name))
os.setgroups([]); os.setgid(int(sys.argv[3])); os.setuid(int(sys.argv[4])); os.umask(0o002)
"""
"""Everything is imported and used once first: the interpreter may lie where only its owner can read."""


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    paths = [str(REPOSITORY), str(REPOSITORY / "tests" / "unit" / "share")]
    return subprocess.Popen(
        [sys.executable, "-c", code, *paths, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(child: subprocess.Popen[str]) -> str:
    out, err = child.communicate(timeout=240)
    assert child.returncode == 0, err
    return out


def as_user(uid: int, code: str, *arguments: object) -> str:
    return finish(python(AS_USER + code, GROUP, uid, *arguments))


def test_of_32_processes_that_push_to_one_directory_every_row_arrives(tmp_path: Path) -> None:
    children = [python(PUSH, (tmp_path / "remote").as_uri(), writer) for writer in range(WRITERS)]
    for child in children:  # all of them wait for their standard input to end
        finish(child)
    read = read_remote(DirectoryPlace(tmp_path / "remote"), TID, Trust())
    assert read.problems == ()
    assert read.objects == WRITERS * ROWS
    assert read.table is not None
    assert {r.key for r in read.table.rows} == {key(n) for n in (*range(WRITERS * ROWS), 100000)}


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory of group :data:`GROUP`, writable by it, that hands the group on (setgid)."""
    with tempfile.TemporaryDirectory(prefix="tunelaunch-shared-") as name:
        path = Path(name)
        os.chown(path, 0, GROUP)
        path.chmod(0o2775)
        yield path


def test_two_users_of_one_group_share_a_cache_root(shared: Path) -> None:
    root = shared / "cache"
    as_user(FIRST, f"publish(Path({str(root)!r}), [row(1)])")
    as_user(SECOND, f"publish(Path({str(root)!r}), [row(2)]); assert len(rows_at(Path({str(root)!r}))) == 2")
    as_user(FIRST, f"publish(Path({str(root)!r}), [row(3)]); assert len(rows_at(Path({str(root)!r}))) == 3")
    assert set(rows_at(root)) == {key(1), key(2), key(3)}
    assert not Store.open(root).load(TID).problems
    for path in [root, *root.rglob("*")]:
        status = path.stat()
        assert (status.st_gid, bool(status.st_mode & stat.S_IWGRP)) == (GROUP, True), path
        assert stat.S_ISREG(status.st_mode) or status.st_mode & stat.S_ISGID, path


def test_two_users_of_one_group_share_a_remote(shared: Path) -> None:
    code = """
remote.write_remote(places.open_place(sys.argv[5]), table([row(os.getuid())]), Trust())
"""
    for uid in (FIRST, SECOND):
        as_user(uid, code, shared / "remote")
    read = read_remote(DirectoryPlace(shared / "remote"), TID, Trust())
    assert read.table is not None
    assert {r.key for r in read.table.rows} == {key(FIRST), key(SECOND)}


def test_a_root_of_another_user_is_read_and_not_written(shared: Path) -> None:
    shared.chmod(0o755)
    publish(shared / "seed", [row(1)])
    before = snapshot(shared)
    code = """
read = seeds.read_seeds(TID, [sys.argv[5]])
assert (len(read.rows), read.problems) == (1, ()), read
sys.exit(main.main(["import", sys.argv[6], "--tunelaunch-cache", sys.argv[5]]) != 1)
"""
    bundle = shared / "x.tar"
    from tunelaunch.share.bundle import make_bundle

    bundle.write_bytes(make_bundle([table([row(2)])]))
    as_user(SECOND, code, shared / "seed", bundle)
    bundle.unlink()
    assert snapshot(shared) == before


def test_a_torn_object_of_a_writer_that_was_killed_is_passed_over(tmp_path: Path) -> None:
    place = DirectoryPlace(tmp_path / "remote")
    name = write_remote(place, table([row(1)]), Trust())
    folder = place.top / "v1" / TID.device / TID.environment / "objects"
    (folder / f".{name}.123-abcd.tmp").write_bytes(b"half")
    (folder / name.replace(name[:4], "0000", 1)).write_bytes((folder / name).read_bytes()[:100])
    read = read_remote(place, TID, Trust())
    assert read.table is not None
    assert (len(read.table.rows), len(read.problems)) == (1, 1)
    assert read_seeds(TID, [str(tmp_path / "remote")]).rows == ()


def test_a_stale_handle_of_a_network_file_system_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faked: the errors of a file that another NFS client replaced."""
    publish(tmp_path, [row(1)])
    real_read, stale = os.read, [2]

    def read(fd: int, size: int) -> bytes:
        if stale[0]:
            stale[0] -= 1
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return real_read(fd, size)

    monkeypatch.setattr(os, "read", read)
    assert set(rows_at(tmp_path)) == {key(1)}
    assert stale == [0]


def test_where_locks_do_not_work_two_hosts_lose_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faked: a file system on which every lock fails."""
    from filelock import FileLock

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(FileLock, "acquire", refuse)
    for number in range(3):
        publish(tmp_path, [row(number)])
    assert set(rows_at(tmp_path)) == {key(n) for n in range(3)}
