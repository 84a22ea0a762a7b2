"""A process that dies while it tries a tactic leaves that tactic's name; one that lives leaves nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from tunelaunch.ranks.journal import EXPIRES_DAYS, Journal, expired, leftovers

ROW = {"op": "moe::gemm1", "scope": None, "key": "k", "runner": "R", "tactic": 4}

DIES = """
import os, signal, sys
from pathlib import Path
from tunelaunch.ranks.journal import Journal
journal = Journal(Path(sys.argv[1]) / "one.json", "launch-1")
for tactic in range(5):
    journal.begin([{"op": "moe::gemm1", "scope": None, "key": "k", "runner": "R", "tactic": tactic}])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_was_trying_is_quarantined_once_and_expires(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", DIES, str(tmp_path)], check=False)
    assert done.returncode == -9
    (entry,) = leftovers(tmp_path)
    assert (entry["key"], entry["tactic"], entry["launch"]) == ("moe::gemm1@*", 4, "launch-1")
    assert not expired(entry)
    assert expired(entry, time.time() + (EXPIRES_DAYS + 1) * 86400)
    assert leftovers(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_pass_that_ends_leaves_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal" / "one.json", "l")
    journal.begin([ROW])
    assert (tmp_path / "journal" / "one.json").exists()
    journal.end()
    assert list((tmp_path / "journal").iterdir()) == []


def test_a_living_process_is_not_taken_for_dead(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "one.json", "l")
    journal.begin([ROW])
    assert leftovers(tmp_path) == []
    assert (tmp_path / "one.json").exists()
    journal.end()


def test_a_shorter_entry_replaces_a_longer_one_whole(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "one.json", "l")
    journal.begin([ROW | {"key": "k" * 500}, ROW])
    journal.begin([ROW])
    assert json.loads((tmp_path / "one.json").read_text())["rows"] == [ROW]
    journal.end()


def test_a_frozen_entry_survives_the_pass(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "one.json", "l")
    journal.begin([ROW])
    journal.freeze()
    journal.begin([ROW | {"tactic": 9}])
    journal.end()
    assert json.loads((tmp_path / "one.json").read_text())["rows"] == [ROW]


def test_default_is_never_blamed(tmp_path: Path) -> None:
    gone = {
        "host": __import__("socket").gethostname(),
        "pid": 2**22 + 1,
        "started": "1",
        "rows": [ROW | {"tactic": -1}],
    }
    (tmp_path / "one.json").write_text(json.dumps(gone))
    assert leftovers(tmp_path) == []


def test_a_damaged_file_and_a_missing_folder_are_nothing(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text("{")
    assert leftovers(tmp_path) == []
    assert leftovers(tmp_path / "none") == []


def test_a_place_that_cannot_be_written_costs_only_the_journal(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    journal = Journal(tmp_path / "file" / "one.json", "l")
    journal.begin([ROW])
    journal.end()
    assert journal.path is None
