"""Marks of launches that use a table, and what removal makes of them."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from storekit import DROP_PRIVILEGES, ENVIRONMENT, OTHER, TID, finish, open_directory, python, row

from tunelaunch.store import Store
from tunelaunch.store.users import FOREIGN_S

WAITER = """
import sys
print("here", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def filled(store: Store) -> Store:
    store.publish(TID, [row(1)], environment=ENVIRONMENT)
    return store


def edit(store: Store, launch: str, **fields: Any) -> None:
    path = store.paths(TID).user(launch)
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def launches(store: Store) -> list[str]:
    return [user.launch for user in store.users(TID)]


def test_a_mark_lives_as_long_as_its_process(filled: Store) -> None:
    child = python(WAITER)
    assert child.stdout is not None
    assert child.stdout.readline() == "here\n"
    assert filled.mark_in_use(TID, "L1", child.pid) is None
    (user,) = filled.users(TID)
    assert (user.launch, user.pid, user.host) == ("L1", child.pid, socket.gethostname())
    assert filled.remove(TID).done is False
    child.communicate("\n")
    assert launches(filled) == []
    assert filled.remove(TID).done


def test_a_process_that_ended_and_was_not_waited_for_is_gone(filled: Store) -> None:
    child = python("print('bye', flush=True)")
    assert child.stdout is not None
    filled.mark_in_use(TID, "L1", child.pid)
    child.stdout.read()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and still in the process table
    assert launches(filled) == []
    child.communicate()


def test_release_takes_one_mark_and_a_second_one_changes_nothing(filled: Store) -> None:
    for launch in ("L1", "L2"):
        filled.mark_in_use(TID, launch, os.getpid())
    filled.release(TID, "L1")
    filled.release(TID, "L1")
    assert launches(filled) == ["L2"]


def test_a_process_id_that_was_given_again_holds_nothing(filled: Store) -> None:
    filled.mark_in_use(TID, "L1", os.getpid())
    started = json.loads(filled.paths(TID).user("L1").read_text())["started"]
    edit(filled, "L1", started=started - 1)
    assert launches(filled) == []
    edit(filled, "L1", started=None)
    assert launches(filled) == ["L1"]


def test_a_restart_of_the_host_ends_all_marks_of_it(filled: Store) -> None:
    filled.mark_in_use(TID, "L1", os.getpid())
    edit(filled, "L1", boot="0" * 8)
    assert launches(filled) == []


@pytest.mark.parametrize(
    "elsewhere", [{"host": "another", "boot": "0" * 8}, {"namespace": "pid:[1]"}, {"host": "another", "boot": None}]
)
def test_a_mark_that_cannot_be_checked_here_ends_after_thirty_days(filled: Store, elsewhere: dict[str, Any]) -> None:
    filled.mark_in_use(TID, "L1", 2**30)
    edit(filled, "L1", **elsewhere)
    assert launches(filled) == ["L1"]
    path = filled.paths(TID).user("L1")
    now = path.stat().st_mtime
    for age in (FOREIGN_S + 60, -FOREIGN_S - 60):  # too old, or from a clock that is far ahead
        os.utime(path, (now - age, now - age))
        assert launches(filled) == []


def test_odd_marks_raise_nothing_and_a_new_mark_sweeps_the_stale_ones(filled: Store) -> None:
    filled.mark_in_use(TID, "old", os.getpid())
    edit(filled, "old", boot="0" * 8)
    folder = filled.paths(TID).in_use
    for name, text in (("empty", ""), ("list", "[]"), ("odd", '{"pid": "x"}'), ("huge", '{"pid": 1e99, "host": 1}')):
        (folder / name).write_text(text)
    (folder / "folder").mkdir()
    os.mkfifo(folder / "fifo")
    assert launches(filled) == ["empty", "fifo", "folder", "huge", "list", "odd"]
    assert filled.load(TID).problems == ()
    assert filled.mark_in_use(TID, "../../new", os.getpid()) is None
    assert (folder / "old").exists() is False
    assert len(list(folder.glob("new-*"))) == 1
    filled.release(TID, "../../new")
    assert launches(filled) == ["empty", "fifo", "folder", "huge", "list", "odd"]


def test_a_mark_that_cannot_be_made_is_a_problem_and_a_read_only_store_makes_none(filled: Store, root: Path) -> None:
    filled.paths(TID).in_use.mkdir()
    assert Store.open(root, readonly=True).mark_in_use(TID, "L1", os.getpid()) is None
    assert list(filled.paths(TID).in_use.iterdir()) == []
    problem = Store(Path("/proc/none")).mark_in_use(TID, "L1", os.getpid())
    assert "cannot be marked as in use" in str(problem)
    assert Store(Path("/proc/none")).users(TID) == ()


OTHERS = (
    DROP_PRIVILEGES
    + """
import os, sys
from storekit import TID
from pathlib import Path
from tunelaunch.store import Store
Store.open(sys.argv[2]).mark_in_use(TID, "warm", os.getpid())
drop()
store = Store(Path(sys.argv[1]))
print(store.mark_in_use(TID, "L2", os.getpid()), [u.launch for u in store.users(TID)])
out = store.remove(TID, force=True)
print(out.done, out.problem)
"""
)


def test_another_user_sees_the_users_and_is_told_what_is_not_allowed() -> None:
    with open_directory() as place:
        store = Store.open(place / "root")
        store.publish(TID, [row(1)], environment={})
        store.mark_in_use(TID, "L1", os.getpid())
        for directory in (place / "root", *(p for p in (place / "root").rglob("*") if p.is_dir())):
            directory.chmod(0o555)
        said = finish(python(OTHERS, str(place / "root"), str(place / "warm")))
        assert "cannot be marked as in use" in said
        assert "['L1']" in said
        assert "False" in said and "cannot be removed" in said
        assert store.load(TID).table is not None


# Removal


def test_a_removed_table_takes_its_history_and_quarantine_and_leaves_the_others(filled: Store, root: Path) -> None:
    filled.publish(TID, [row(2)], environment={})
    filled.publish(OTHER, [row(1)], environment={})
    filled.add_quarantine(TID, [{"key": "k"}])
    out = filled.remove(TID)
    assert (out.done, out.problem) == (True, None)
    assert not (root / "v1" / TID.device).exists()
    assert [info.device for info in filled.tables()] == [OTHER.device]
    assert filled.remove(TID).done is False
    assert filled.publish(TID, [row(3)], environment={}).generation == 1


def test_pinned_used_and_unreadable_tables_stay_unless_forced(filled: Store) -> None:
    def refused() -> str:
        out = filled.remove(TID)
        assert not out.done
        assert filled.paths(TID).table.exists()
        return str(out.problem)

    filled.pin(TID)
    assert "is pinned" in refused()
    filled.pin(TID, False)
    filled.mark_in_use(TID, "L1", os.getpid())
    assert "in use by launch L1" in refused()
    filled.release(TID, "L1")
    filled.paths(TID).table.write_text("{")
    assert "may be pinned" in refused()
    assert filled.remove(TID, force=True).done


def test_removal_does_not_follow_links(filled: Store, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    (filled.paths(TID).directory / "link").symlink_to(outside)
    assert filled.remove(TID).done
    link = root / "v1" / TID.device / TID.environment
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside)
    assert filled.remove(TID).done
    assert not os.path.lexists(link)
    (root / "v1" / OTHER.device).symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / OTHER.environment).mkdir(parents=True)
    assert "leads out of the cache" in str(filled.remove(OTHER, force=True).problem)
    assert (tmp_path / "elsewhere" / OTHER.environment).is_dir()
    assert (outside / "precious").read_text() == "x"


def test_leftovers_of_a_killed_removal_are_finished_after_a_day(filled: Store, root: Path) -> None:
    leftover = root / "v1" / TID.device / ".removed-0123456789ab-1-aaaa"
    (leftover / "history").mkdir(parents=True)
    assert [info.environment for info in filled.tables()] == [TID.environment]
    filled.remove(TID)
    assert leftover.is_dir()  # its owner may be at work


PUBLISHER = """
import sys
from storekit import TID, row
from tunelaunch.store import Store
store = Store.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(60):
    out = store.publish(TID, [row(number)], environment={"a": number})
    assert out.generation is not None and out.added == 1, out
    assert all("set aside" not in str(p) for p in out.problems), out
print("done")
"""


def test_a_writer_whose_table_is_removed_meanwhile_makes_it_anew(root: Path) -> None:
    child = python(PUBLISHER, str(root))
    assert child.stdout is not None and child.stdin is not None
    assert child.stdout.readline() == "ready\n"
    store = Store.open(root)
    child.stdin.write("go\n")
    child.stdin.flush()
    removed = 0
    while child.poll() is None:
        removed += store.remove(TID, force=True).done
    assert "done" in finish(child)
    assert removed > 0
    table = store.load(TID).table
    assert table is None or row(59) in table.rows


# Holdings


def test_holdings_count_all_files_and_the_last_use(filled: Store) -> None:
    filled.publish(TID, [row(2)], environment=ENVIRONMENT)
    filled.add_quarantine(TID, [{"key": "a"}, {"key": "b"}])
    path = filled.paths(TID).table
    os.utime(path, (1000, 1000))
    (held,) = filled.holdings()
    assert (held.quarantined, held.users, held.used, held.name) == (2, (), 1000.0, str(TID))
    assert held.bytes == sum(p.stat().st_size for p in path.parent.rglob("*") if p.is_file())
    filled.mark_in_use(TID, "L1", os.getpid())
    (held,) = filled.holdings()
    assert held.used > 1000.0
    assert [user.launch for user in held.users] == ["L1"]
