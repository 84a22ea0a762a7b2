"""The examples' scripts, as far as they run on one machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "unit" / "share"))
from sharekit import KEY, OTHER, OTHER_FIELDS, REPOSITORY, TID, key, publish, row, rows_at

EXAMPLES = REPOSITORY / "examples"


@pytest.mark.parametrize("signed", [False, True])
def test_tables_go_to_another_host_through_a_pipe(tmp_path: Path, signed: bool) -> None:
    publish(tmp_path / "a", [row(1, 5)])
    publish(tmp_path / "a", [row(2, 5)], OTHER_FIELDS)
    (tmp_path / "key").write_bytes(KEY)
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\n[ "$1" = user@other ] || exit 9\nTUNELAUNCH_CACHE_DIR={tmp_path}/b exec sh -c "$2"\n')
    ssh.chmod(0o755)
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TUNELAUNCH_")},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "TUNELAUNCH_CACHE_DIR": str(tmp_path / "a"),
        "SSH": str(ssh),
    }
    command = [str(EXAMPLES / "two-hosts" / "copy.sh"), "user@other", *([str(tmp_path / "key")] if signed else [])]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (rows_at(tmp_path / "b", TID), rows_at(tmp_path / "b", OTHER)) == ({key(1): 5}, {key(2): 5})


def test_every_example_says_what_was_tried() -> None:
    folders = [path for path in EXAMPLES.iterdir() if path.is_dir()]
    assert len(folders) >= 5
    listed = (EXAMPLES / "README.md").read_text()
    for folder in folders:
        text = (folder / "README.md").read_text()
        assert "## Tried" in text, folder
        assert f"]({folder.name})" in listed, folder


@pytest.mark.parametrize("script", ["slurm/serve.sbatch", "two-hosts/copy.sh"])
def test_scripts_parse(script: str) -> None:
    assert subprocess.run(["bash", "-n", str(EXAMPLES / script)], check=False).returncode == 0
