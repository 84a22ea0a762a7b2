"""Places that cannot be written, or that have odd names."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest
from storekit import DROP_PRIVILEGES, ENVIRONMENT, TID, finish, mounted, open_directory, python, row, small_disk

from tunelaunch.store import Row, Store


def publish(store: Store, *rows: Row, **options: bool):
    return store.publish(TID, rows, environment=ENVIRONMENT, **options)


def fat(number: int) -> Row:
    return row(number, evidence={"note": "x" * 200_000})


@pytest.mark.parametrize("name", ["with spaces and (brackets)", "ünï", "a'b\"c", "-dash", "$HOME", "new\nline"])
def test_odd_directory_names_work(tmp_path: Path, name: str) -> None:
    store = Store.open(tmp_path / name / "cache")
    assert publish(store, row(1)).problems == ()
    assert store.load(TID).table is not None


def test_a_relative_path_stays_where_it_was_when_the_process_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store.open("my cache")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert publish(store, row(1)).path == str(
        tmp_path / "my cache" / "v1" / TID.device / TID.environment / "table.json"
    )
    assert store.writable_root == tmp_path / "my cache"


def test_the_home_directory_is_expanded_and_an_empty_path_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Store.open("~/cache").writable_root == tmp_path / "cache"
    with pytest.raises(ValueError, match="empty"):
        Store.open("")


@pytest.mark.parametrize("bad", ["/proc/none/cache", "/dev/null/cache", "x" * 5000, "nul\0byte"])
def test_an_impossible_root_is_a_problem_not_an_error(bad: str) -> None:
    store = Store.open(bad)
    assert store.writable_root is None
    assert "nothing is kept" in str(store.problems[-1])
    assert store.load(TID).table is None
    assert publish(store, row(1)).generation is None
    assert store.write_report("L", {}) is None
    assert store.read_report() is None
    assert store.tables() == []
    assert store.history(TID) == []
    assert store.rollback(TID).generation is None
    assert store.add_quarantine(TID, [{"key": "k"}])
    assert store.read_quarantine(TID) == []


READONLY = (
    DROP_PRIVILEGES
    + """
import sys
from pathlib import Path
from storekit import ENVIRONMENT, TID, row
from tunelaunch.store import Store
Store.open(sys.argv[3]).publish(TID, [row(0)], environment={})  # all modules are loaded while we may read them
drop()
alone = Store.open(sys.argv[1])
assert alone.writable_root is None
assert "nothing is kept" in str(alone.problems[-1]), alone.problems
assert {r.tactic for r in alone.load(TID).table.rows} == {14}
assert alone.publish(TID, [row(3)], environment={}).generation is None
store = Store.open(sys.argv[1], overlay=sys.argv[2])
assert store.writable_root == Path(sys.argv[2]).absolute()
assert "instead" in str(store.problems[-1]), store.problems
out = store.publish(TID, [row(1, 99), row(3)], environment=ENVIRONMENT)
assert (out.generation, out.added, out.replaced, out.kept) == (2, 1, 0, 2), out
out = store.publish(TID, [row(1, 99)], environment=ENVIRONMENT, replace=True, remove=[row(2).identity])
assert (out.generation, out.added, out.replaced, out.removed) == (3, 0, 1, 0), out
assert "read-only" in str(out.problems[-1])
loaded = store.load(TID)
assert loaded.problems == () and loaded.table.generation == 3
assert {(r.key, r.tactic) for r in loaded.table.rows} == {(row(1).key, 99), (row(2).key, 14), (row(3).key, 14)}
assert store.write_report("L", {"a": 1}).is_relative_to(store.writable_root)
assert store.read_report()["a"] == 1
assert store.add_quarantine(TID, [{"key": "mine"}]) == ()
assert [e["key"] for e in store.read_quarantine(TID)] == ["theirs", "mine"]
assert len(store.tables()) == 2
print("done")
"""
)


def test_a_root_of_another_user_is_read_and_writes_go_to_the_overlay() -> None:
    with open_directory() as place:
        root, overlay = place / "root", place / "over lay"
        owner = Store.open(root)
        publish(owner, row(1), row(2))
        owner.add_quarantine(TID, [{"key": "theirs"}])
        before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
        for directory in (root, *(path for path in root.rglob("*") if path.is_dir())):
            directory.chmod(0o555)
        overlay.mkdir()
        overlay.chmod(0o777)
        assert "done" in finish(python(READONLY, str(root), str(overlay), str(place / "warm")))
        assert {path: path.lstat().st_mtime_ns for path in root.rglob("*")} == before


def test_a_read_only_mount_is_read_and_writes_go_to_the_overlay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mounted(tmp_path / "disk") as real:
        root = tmp_path / "disk" / "root"
        publish(Store.open(root), row(1))
        if real:
            subprocess.run(["mount", "-o", "remount,ro", str(tmp_path / "disk")], check=True)
        else:
            refuse_writes_under(root, monkeypatch)
        store = Store.open(root, overlay=tmp_path / "overlay")
        assert os.strerror(errno.EROFS) in str(store.problems[0])
        assert store.writable_root == tmp_path / "overlay"
        assert publish(store, row(2)).added == 1
        table = store.load(TID).table
        assert table is not None
        assert set(table.rows) == {row(1), row(2)}


def refuse_writes_under(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be mounted: the one error that a read-only file system gives."""
    real = os.open

    def opened(path: str, flags: int, *rest: int, **named: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR) and Path(path).is_relative_to(root):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", opened)


def test_a_disk_that_fills_up_costs_the_new_rows_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "disk", monkeypatch):
        store = Store.open(tmp_path / "disk" / "root")
        path = Path(publish(store, row(1)).path or "")
        before = path.read_bytes()
        out = publish(store, *(fat(number) for number in range(2, 12)))
        assert out.generation is None
        assert "No space left on device" in str(out.problems[-1])
        assert path.read_bytes() == before
        assert list(path.parent.glob(".*.tmp")) == []
        assert store.load(TID).problems == ()
        assert store.write_report("L", {"note": "x" * 2_000_000}) is None
        assert "No space left" in str(store.problems[-1])
        assert any("No space left" in str(p) for p in store.add_quarantine(TID, [{"key": "k" * 2_000_000}]))


def test_a_disk_that_fills_up_after_open_sends_rows_and_quarantine_to_the_overlay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "disk", monkeypatch):
        root, overlay = tmp_path / "disk" / "root", tmp_path / "overlay"
        store = Store.open(root, overlay=overlay)
        publish(store, row(1))
        before = Store.open(root, readonly=True).load(TID).table
        big = [fat(number) for number in range(2, 12)]
        out = publish(store, *big)
        assert (out.generation, out.added, out.kept) == (2, 10, 1)
        assert "No space left on device" in str(out.problems[0])
        assert f"written to {overlay} instead" in str(out.problems[0])
        assert len(out.problems) == 1
        assert out.path is not None and Path(out.path).is_relative_to(overlay)
        assert store.writable_root == overlay
        table = store.load(TID).table
        assert table is not None and set(table.rows) == {row(1), *big}
        assert Store.open(root, readonly=True).load(TID).table == before
        again = publish(store, row(50))
        assert (again.generation, again.problems) == (3, ())
        assert store.write_report("L", {"note": "x" * 2_000_000}) is not None


def test_a_quarantine_that_finds_the_disk_full_goes_to_the_overlay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "disk", monkeypatch):
        store = Store.open(tmp_path / "disk" / "root", overlay=tmp_path / "overlay")
        publish(store, row(1))
        (problem,) = store.add_quarantine(TID, [{"key": "k" * 2_000_000}])
        assert "instead" in str(problem)
        assert len(store.read_quarantine(TID)) == 1
        assert store.writable_root == tmp_path / "overlay"


def test_a_root_that_turns_read_only_after_open_sends_rows_to_the_overlay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mounted(tmp_path / "disk") as real:
        root = tmp_path / "disk" / "root"
        store = Store.open(root, overlay=tmp_path / "overlay")
        publish(store, row(1))
        if real:
            subprocess.run(["mount", "-o", "remount,ro", str(tmp_path / "disk")], check=True)
        else:
            refuse_writes_under(root, monkeypatch)
        out = publish(store, row(2))
        assert (out.generation, out.added, out.kept) == (2, 1, 1)
        assert os.strerror(errno.EROFS) in str(out.problems[0])


def test_a_full_disk_is_noticed_at_open(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk") as real:
        full = tmp_path / "disk" if real else Path("/dev/full")  # /dev/full: no directory can be made there either
        if real:
            with (full / "fill").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
                while True:
                    file.write(b"x" * 65536)
        store = Store.open(full / "root", overlay=tmp_path / "overlay")
        assert store.writable_root == tmp_path / "overlay"
        assert publish(store, row(1)).generation == 1


IMMOVABLE = (
    DROP_PRIVILEGES
    + """
import sys
from storekit import TID, row
from tunelaunch.store import Store
Store.open(sys.argv[2]).publish(TID, [row(0)], environment={})
drop()
store = Store.open(sys.argv[1])
assert store.writable_root is not None, store.problems
out = store.publish(TID, [row(1)], environment={})
assert out.generation is None and len(out.problems) == 1, out
print(out.problems[0])
"""
)


def test_a_damaged_file_of_another_user_that_cannot_be_moved_is_named_once() -> None:
    with open_directory() as place:
        root = place / "root"
        path = Path(publish(Store.open(root), row(0)).path or "")
        path.write_text("{")
        for directory in (root, *(item for item in root.rglob("*") if item.is_dir())):
            # As root: others may add files but move only their own (sticky). As a plain user: nobody may.
            directory.chmod(0o1777)
        if os.geteuid() != 0:
            path.parent.chmod(0o555)
        said = finish(python(IMMOVABLE, str(root), str(place / "warm")))
        assert "cannot be moved away" in said or "Permission denied" in said
        assert path.read_text() == "{"
