"""``export`` and ``import`` as commands: selection, keys, pipes, sources that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sharekit import (
    KEY,
    OTHER,
    OTHER_FIELDS,
    key,
    publish,
    row,
    rows_at,
    table,
)

from tunelaunch.cli.main import main
from tunelaunch.share.bundle import make_bundle
from tunelaunch.share.signing import Trust


@pytest.fixture(autouse=True)
def _own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TUNELAUNCH_CACHE_DIR", "TUNELAUNCH_KEY_FILE", "TUNELAUNCH_REQUIRE_SIGNED"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))


def run(capsys: pytest.CaptureFixture[str], *args: Any) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([str(arg) for arg in args])
    said = capsys.readouterr()
    return code, said.out, said.err


def bundle_file(tmp_path: Path, *tables: Any, trust: Trust | None = None) -> Path:
    path = tmp_path / "tables.tar"
    path.write_bytes(make_bundle(tables, trust))
    return path


def test_export_and_import_through_a_pipe_and_a_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "key").write_bytes(KEY + b"\n")
    publish(tmp_path / "a", [row(1)])
    publish(tmp_path / "a", [row(1)], OTHER_FIELDS)
    file = tmp_path / "x.tar.gz"
    common = ("--key-file", tmp_path / "key", "--tunelaunch-cache")
    code, out, _ = run(capsys, "export", file, "--all", *common, tmp_path / "a", "--format", "json")
    assert (code, json.loads(out)["signed"], len(json.loads(out)["tables"])) == (0, True, 2)
    code, out, _ = run(capsys, "import", file, *common, tmp_path / "b", "--format", "json")
    assert (code, json.loads(out)["signed"]) == (0, True)
    assert rows_at(tmp_path / "b") == rows_at(tmp_path / "b", OTHER) == {key(1): 14}


def test_export_asks_which_table_when_there_are_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(tmp_path / "a", [row(1)])
    publish(tmp_path / "a", [row(1)], OTHER_FIELDS)
    args = ("export", tmp_path / "x.tar", "--tunelaunch-cache", tmp_path / "a")
    code, _, err = run(capsys, *args)
    assert (code, (tmp_path / "x.tar").exists()) == (2, False)
    assert "--all" in err
    assert run(capsys, *args, "--environment", OTHER.environment[:6])[0] == 0
    assert run(capsys, *args, "--device", "other")[0] == 1


def test_with_required_signatures_nothing_unsigned_comes_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path / "a", [row(1)])
    unsigned = bundle_file(tmp_path, table([row(1)]))
    (tmp_path / "plain.json").write_text("{}")
    monkeypatch.setenv("TUNELAUNCH_REQUIRE_SIGNED", "1")
    for source in (unsigned, tmp_path / "a", tmp_path / "plain.json"):
        code, _, err = run(capsys, "import", source, "--tunelaunch-cache", tmp_path / "b")
        assert code == 1
        assert "TUNELAUNCH_REQUIRE_SIGNED" in err
    assert not (tmp_path / "b").exists()


def test_another_cache_directory_is_imported_like_a_bundle(tmp_path: Path) -> None:
    publish(tmp_path / "a", [row(1)])
    publish(tmp_path / "a", [row(2)], OTHER_FIELDS)
    for source in (str(tmp_path / "a"), (tmp_path / "a").as_uri()):
        assert main(["import", source, "--tunelaunch-cache", str(tmp_path / "b")]) == 0
    assert (rows_at(tmp_path / "b"), rows_at(tmp_path / "b", OTHER)) == ({key(1): 14}, {key(2): 14})


@pytest.mark.parametrize("what", ["", "missing", "directory", "file://host/x", "http://127.0.0.1:1/x.tar"])
def test_a_source_that_is_none_is_refused(tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "directory").mkdir()
    source = what if "://" in what else tmp_path / what
    code, _, err = run(capsys, "import", source, "--tunelaunch-cache", tmp_path / "b")
    assert (code, (tmp_path / "b").exists()) == (1, False)
    assert err.startswith("tunelaunch: ")


def test_a_key_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = bundle_file(tmp_path, table([row(1)]))
    (tmp_path / "short").write_text("short\n")
    for name in ("short", "missing"):
        code, _, err = run(capsys, "import", path, "--key-file", tmp_path / name, "--tunelaunch-cache", tmp_path / "b")
        assert code == 1
        assert "key file" in err
