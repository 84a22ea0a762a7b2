"""Files, places and environments that are not as they should be: a server that starts, and a line that says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from serverkit import FLAGS, Ran, environment

pytestmark = pytest.mark.server


def test_a_damaged_table_is_set_aside_said_and_tuned_again(bad_day: Ran, cold: Ran) -> None:
    root = bad_day.directory / "root with spaces"
    [aside] = root.glob("v1/*/*/table.json.damaged-*")
    assert aside.stat().st_size == 40
    assert bad_day.said(f"set aside as {aside.name}")
    assert any(aside.name in problem for problem in bad_day.report["problems"])
    assert bad_day.counts == cold.counts
    [table] = root.glob("v1/*/*/table.json")
    assert bad_day.report["table"]["path"] == str(table)


def test_a_list_of_plugins_without_ours_is_completed_and_said(bad_day: Ran) -> None:
    assert bad_day.said("SGLANG_PLUGINS does not list tunelaunch: added for this start")
    assert bad_day.report["states"] == {"active": [0]}


@pytest.mark.parametrize(
    ("own", "variables", "said"),
    [
        ((), {}, "table root"),
        (("--tunelaunch-mode", "off"), {}, "starting plain SGLang: mode is off"),
        ((), {"TUNELAUNCH_DISABLE": "1"}, "starting plain SGLang: TUNELAUNCH_DISABLE is set"),
    ],
)
def test_a_wrong_argument_of_sglang_gives_sglangs_own_exit_code(
    tmp_path: Path, own: tuple[str, ...], variables: dict[str, str], said: str
) -> None:
    done = _run(tmp_path, "tunelaunch", *own, "--no-such-argument", **variables)
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[0]
    assert "unrecognized arguments: --no-such-argument" in done.stderr
    assert bool(list(tmp_path.glob("run/tunelaunch-*"))) == (said == "table root")


def test_strict_refuses_to_serve_when_the_plugin_cannot_be_found(tmp_path: Path) -> None:
    shadow = tmp_path / "first on the path" / "tunelaunch-0.0.1.dist-info"
    shadow.mkdir(parents=True)
    (shadow / "METADATA").write_text("Metadata-Version: 2.1\nName: tunelaunch\nVersion: 0.0.1\n")
    (shadow / "entry_points.txt").write_text("[console_scripts]\ntunelaunch = tunelaunch.cli.main:main\n")
    path = os.pathsep.join([str(shadow.parent), os.environ.get("PYTHONPATH", "")])
    done = _run(tmp_path, "tunelaunch", "--tunelaunch-strict", PYTHONPATH=path)
    assert done.returncode == 1
    assert "SGLang will not find the plugin" in done.stderr
    assert "sglang.launch_server" not in done.stderr


def _run(directory: Path, program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A start that ends by itself."""
    (directory / "run").mkdir()
    return subprocess.run(
        [sys.executable, "-m", program, "--model-path", str(directory), *FLAGS, *arguments],
        env=environment(directory, directory / "sglang-cache") | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
