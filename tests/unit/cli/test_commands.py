"""The commands and the error boundary, over real stores in a temporary directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tunelaunch import __version__
from tunelaunch.cli import main as main_module
from tunelaunch.cli.main import main
from tunelaunch.store.identity import TableId
from tunelaunch.store.rows import Row
from tunelaunch.store.store import Store

REPO = Path(__file__).parents[3]
PRO = TableId("nvidia-rtx-pro-6000-blackwell-workstation-edition.sm120.188sm", "a" * 12)
RTX = TableId("nvidia-geforce-rtx-5090.sm120.170sm", "b" * 12)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own root and runtime directory, as the environment says."""
    for name in [n for n in os.environ if n.startswith("TUNELAUNCH_")]:
        monkeypatch.delenv(name)
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("TUNELAUNCH_CACHE_DIR", str(tmp_path / "root"))
    return tmp_path / "root"


def publish(root: Path, tid: TableId, tactic: int, **kwargs: Any) -> None:
    row = Row(key="('op', 'R')", value=["R", tactic], op="op")
    assert not Store.open(root).publish(tid, [row], environment={"gpu_name": "X"}, replace=True, **kwargs).problems


def out_json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_help_names_every_own_option_and_how_to_see_sglangs(capsys: pytest.CaptureFixture[str]) -> None:
    from tunelaunch.options import OPTIONS

    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(option.token in text and option.variable in text for option in OPTIONS)
    assert "python -m sglang.launch_server --help" in text
    assert "--opt=value" in text
    assert all(len(line) <= 120 for line in text.splitlines())


def test_version_names_the_host_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"tunelaunch {__version__}"
    assert [line.split()[0] for line in lines[1:]] == ["sglang", "flashinfer-python"]


@pytest.mark.parametrize("args", [[], ["--tunelaunch-foo=1"], ["frobnicate"], ["why", "m"], ["cache"], ["cache", "x"]])
def test_a_wrong_command_line_is_exit_code_2(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 2
    assert capsys.readouterr().out == ""


def test_an_unknown_command_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    main(["cahce"])
    said = capsys.readouterr().err
    assert "nearest: cache" in said
    assert ", ".join(main_module.COMMANDS) in said


def test_a_bug_is_exit_code_3_with_traceback_and_how_to_report(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> int:
        raise ZeroDivisionError("this one")

    monkeypatch.setitem(main_module.COMMANDS, "report", broken)
    assert main(["report"]) == 3
    said = capsys.readouterr().err
    assert "ZeroDivisionError: this one" in said
    assert "bug in tunelaunch" in said


def test_an_interrupt_is_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(main_module.COMMANDS, "report", interrupted)
    assert main(["report"]) == 130


def test_a_reader_that_stops_reading_is_no_bug(root: Path) -> None:
    publish(root, PRO, 1)
    command = [sys.executable, "-m", "tunelaunch", "cache", "ls"]
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as gone:  # noqa: PTH123 - a descriptor
        done = subprocess.run(
            command, stdout=gone, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(REPO)}, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"")


def test_cache_dir_follows_option_variable_and_order(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "dir"]) == 0
    assert capsys.readouterr().out == f"{root}\n"
    for args in (["--tunelaunch-cache", "/x", "cache", "dir"], ["cache", "dir", "--tunelaunch-cache=/x"]):
        main([*args, "--format", "json"])
        assert out_json(capsys)["root"] == "/x"


def test_looking_makes_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for args in (["ls"], ["verify"], ["dir"]):
        assert main(["cache", *args]) == 0
    assert main(["cache", "show"]) == 1
    assert "no table yet" in capsys.readouterr().err
    assert not root.exists()


def test_ls_lists_the_tables_of_root_and_overlay(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tunelaunch.cli.places import overlay

    publish(root, PRO, 1)
    overlay().parent.mkdir()
    publish(overlay(), RTX, 2)
    main(["cache", "ls", "--format", "json"])
    tables = out_json(capsys)["tables"]
    assert [(t["device"], t["rows"], t["generation"]) for t in tables] == [(PRO.device, 1, 1), (RTX.device, 1, 1)]
    assert main(["cache", "ls"]) == 0
    text = capsys.readouterr().out
    assert PRO.device in text
    assert str(overlay()) in text


def test_show_prints_fields_and_rows(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(root, PRO, 7)
    assert main(["cache", "show", "--format", "json"]) == 0
    shown = out_json(capsys)
    assert shown["table_rows"][0]["value"] == ["R", 7]
    assert shown["fields"] == {"gpu_name": "X"}
    assert main(["cache", "show", PRO.environment[:4]]) == 0
    assert "gpu_name = X" in capsys.readouterr().out


def test_a_name_that_is_not_unique_lists_the_candidates(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(root, PRO, 1)
    publish(root, RTX, 1)
    for args in ([], ["nvidia"], ["zzz"]):
        assert main(["cache", "show", *args]) == 1
        said = capsys.readouterr().err
        assert str(PRO) in said
        assert str(RTX) in said


def test_verify_names_what_is_damaged_and_leaves_it_there(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(root, PRO, 1)
    publish(root, RTX, 1)
    assert main(["cache", "verify"]) == 0
    path = Store.open(root).paths(RTX).table
    path.write_bytes(path.read_bytes()[:40])
    capsys.readouterr()
    assert main(["cache", "verify", "--format", "json"]) == 1
    found = out_json(capsys)
    assert found["damaged"] == 1
    assert [bool(t["problems"]) for t in found["tables"]] == [t["device"] == RTX.device for t in found["tables"]]
    assert path.exists()


def test_rollback_says_first_and_restores_the_bytes(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(root, PRO, 1)
    path = Store.open(root).paths(PRO).table
    before = path.read_bytes()
    publish(root, PRO, 2)
    after = path.read_bytes()
    assert main(["cache", "rollback", "--dry-run", "--format", "json"]) == 0
    assert out_json(capsys) == {"device": PRO.device, "environment": PRO.environment, "from": 2, "to": 1, "done": False}
    assert path.read_bytes() == after
    assert main(["cache", "rollback"]) == 0
    assert path.read_bytes() == before


def test_rollback_without_an_earlier_generation_is_refused(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(root, PRO, 1)
    for args in ([], ["--generation", "9"], ["--dry-run"]):
        assert main(["cache", "rollback", *args]) == 1
        assert "nothing was changed" in capsys.readouterr().err


def test_report_prints_the_last_start_or_the_one_asked_for(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store.open(root)
    for launch in ("20260101T000000Z-1-0000", "20260102T000000Z-1-0000"):
        store.write_report(launch, {"launch": launch, "totals": {"loaded": 3}})
    assert main(["report"]) == 0
    text = capsys.readouterr().out
    assert "20260102T000000Z-1-0000" in text
    assert "3 loaded" in text
    assert main(["report", "20260101T000000Z-1-0000", "--format", "json"]) == 0
    assert out_json(capsys)["launch"] == "20260101T000000Z-1-0000"


def test_without_a_report_the_reason_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report"]) == 1
    assert "no report of any launch" in capsys.readouterr().err


def test_text_from_disk_cannot_steer_a_terminal(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store.open(root).write_report("l", {"launch": "l\x1b[2J", "fallbacks": ["a\x1b]0;x\x07"]})
    main(["report"])
    assert "\x1b" not in capsys.readouterr().out
