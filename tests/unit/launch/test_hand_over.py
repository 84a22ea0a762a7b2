"""The hand-over for real: tunelaunch as a process becomes (a stand-in for) SGLang in that same process."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PLAIN = "starting plain SGLang"


def run_dirs(host: Any) -> list[Path]:
    return list((host.path / "run" / f"tunelaunch-{os.getuid()}").glob("*Z-*"))


def test_same_process_same_arguments_same_stdin_same_exit_code(host: Any) -> None:
    started = host.start("--model-path", "x y", "--tp", "2", "--stand-in-exit=7", "--retune", stdin="in\n")
    assert started.given["pid"] == started.pid
    assert started.argv == [b"--model-path", b"x y", b"--tp", b"2", b"--stand-in-exit=7"]
    assert started.stdin == "in\n"
    assert started.code == 7


own_free = st.binary(max_size=8).filter(
    lambda b: b"\0" not in b and not b.startswith((b"--", b"-h")) and b != b"--retune"
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(own_free, max_size=5), st.lists(st.binary(max_size=8).filter(lambda b: b"\0" not in b), max_size=4))
def test_arguments_arrive_byte_for_byte(shared_host: Any, head: list[bytes], tail: list[bytes]) -> None:
    args = [b"--model-path", *head, b"--", *tail]
    assert shared_host.start(*args, TUNELAUNCH_DISABLE="1").argv == args


def test_bytes_that_are_no_utf8_arrive_through_the_whole_launcher(host: Any) -> None:
    args = [b"--model-path", b"/m/\xff\xfe\x80", b"", b"\n", "é".encode()]
    assert host.start(*args).argv == args


def test_a_signal_reaches_sglang_itself(host: Any) -> None:
    with subprocess.Popen(
        host.command(["--stand-in-wait"]), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=host.environ()
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["pid"] == process.pid
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == -signal.SIGTERM


def test_death_by_signal_is_seen_from_outside(host: Any) -> None:
    assert host.start("--stand-in-signal=9", "--tp", "1").code == -9


def test_no_file_stays_open_across_the_hand_over(host: Any) -> None:
    probe = ["-m", "sglang.launch_server"]
    plain = host.start(program=probe)
    assert host.start("--tp", "1").given["fds"] == plain.given["fds"]


def test_the_contract_and_a_private_run_directory(host: Any) -> None:
    started = host.start("--tp", "1", "--tunelaunch-tag", "t", TUNELAUNCH_LAUNCH="stale", TUNELAUNCH_RUN_DIR="/stale")
    (run_dir,) = run_dirs(host)
    assert started.environ["TUNELAUNCH_RUN_DIR"] == str(run_dir)
    assert started.environ["TUNELAUNCH_LAUNCH"] == run_dir.name
    assert started.environ["TUNELAUNCH_TAG"] == "t"
    assert started.environ["TUNELAUNCH_CACHE_DIR"] == str(host.path / "xdg-cache" / "tunelaunch")
    assert re.fullmatch(rf"\d{{8}}T\d{{6}}Z-{started.pid}-[0-9a-f]{{4}}", run_dir.name)
    for directory in (run_dir, run_dir.parent, run_dir / "receipts"):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_one_line_says_what_was_found(host: Any) -> None:
    started = host.start("--tp", "1", "--tunelaunch-cache", "rel ative")
    line = started.stderr.splitlines()[0]
    assert line.startswith("tunelaunch 0.1.0: ")
    assert f"table root {host.path / 'rel ative'}, launch " in line


def test_a_missing_plugin_is_said_and_with_strict_refused(host: Any) -> None:
    assert "SGLang will not find the plugin" in host.start("--tp", "1").stderr
    refused = host.start("--tp", "1", "--tunelaunch-strict")
    assert (refused.code, refused.given) == (1, None)
    assert "pip install" in refused.stderr
    host.install_plugin()
    assert "plugin" not in host.start("--tp", "1").stderr


def test_an_installation_with_the_plugin_is_of_no_use_behind_one_without(host: Any) -> None:
    """SGLang, too, takes the entry points of the first distribution of a name on the path only."""
    later = host.path / "later" / "tunelaunch-0.1.0.dist-info"
    later.mkdir(parents=True)
    (later / "METADATA").write_text("Metadata-Version: 2.1\nName: tunelaunch\nVersion: 0.1.0\n")
    (later / "entry_points.txt").write_text("[sglang.srt.plugins]\ntunelaunch = tunelaunch.ranks.plugin:register\n")
    path = f"{host.environ()['PYTHONPATH']}:{later.parent}"
    assert "SGLang will not find the plugin" in host.start("--tp", "1", PYTHONPATH=path).stderr


@pytest.mark.parametrize("how", [{"TUNELAUNCH_DISABLE": "1"}, {"TUNELAUNCH_MODE": "off"}])
def test_switched_off_it_is_plain_sglang_with_one_line(host: Any, how: dict[str, str]) -> None:
    started = host.start("--tp", "1", TUNELAUNCH_LAUNCH="stale", TUNELAUNCH_TAG="t", **how)
    assert not [name for name in started.environ if name.startswith("TUNELAUNCH_")]
    assert PLAIN in started.stderr
    assert len(started.stderr.splitlines()) == 1
    assert run_dirs(host) == []


def test_a_cache_root_that_is_a_file_does_not_stop_the_start(host: Any) -> None:
    (host.path / "file").write_text("")
    for root in ("file", "file/below", "x" * 5000):
        started = host.start("--tp", "1", "--tunelaunch-cache", root)
        assert started.argv == [b"--tp", b"1"]
        assert f"{PLAIN}: table root" in started.stderr
        refused = host.start("--tp", "1", "--tunelaunch-strict", "--tunelaunch-cache", root)
        assert (refused.code, refused.given) == (1, None)


def run_dir_that_exists(host: Any, strict: bool) -> Any:
    program = f"""
from pathlib import Path
from tunelaunch.launch import Own, execute, plan_launch
import dataclasses, os, sys
plan = plan_launch(Own(), ["--tp", "1"], os.environ)
plan.run_dir.mkdir(parents=True)
try:
    execute(dataclasses.replace(plan, strict={strict}))
except Exception as why:
    sys.exit(f"refused: {{why}}")
"""
    return host.start(program=["-c", program])


def test_a_run_directory_that_cannot_be_made_does_not_stop_the_start(host: Any) -> None:
    started = run_dir_that_exists(host, strict=False)
    assert started.argv == [b"--tp", b"1"]
    assert not [name for name in started.environ if name.startswith("TUNELAUNCH_")]
    assert f"{PLAIN}: no run directory" in started.stderr


def test_a_run_directory_that_cannot_be_made_is_refused_with_strict(host: Any) -> None:
    started = run_dir_that_exists(host, strict=True)
    assert started.given is None
    assert "refused: no run directory" in started.stderr


def test_a_closed_stderr_does_not_stop_the_start(host: Any) -> None:
    quoted = " ".join(host.command(["--tp", "1"]))
    out = subprocess.run(["sh", "-c", f"{quoted} 2>&-"], env=host.environ(), capture_output=True, check=True, input=b"")
    assert json.loads(out.stdout.splitlines()[0])["argv"] == ["2d2d7470", "31"]


def test_without_sglang_it_says_what_to_install(host: Any) -> None:
    # Without site-packages, so that an installed SGLang is not there either.
    started = host.start(program=["-S", "-m", "tunelaunch", "--tp", "1"], PYTHONPATH=str(Path(__file__).parents[3]))
    assert started.code == 1
    assert "pip install 'sglang" in started.stderr


def test_sglangs_own_help_is_sglangs(host: Any) -> None:
    assert host.start("--help-sglang").argv == [b"--help"]


def test_neither_torch_nor_sglang_is_imported_by_the_launcher(host: Any) -> None:
    program = """
import os, sys
from tunelaunch.launch import Own, plan_launch
plan_launch(Own(), ["--tp", "1"], os.environ)
sys.exit(sorted({"torch", "sglang", "flashinfer", "argparse", "filelock"} & set(sys.modules)) or 0)
"""
    assert host.start(program=["-c", program]).stderr == ""


def test_help_is_answered_without_the_launcher(host: Any) -> None:
    program = """
import sys
from tunelaunch.cli.main import main
assert main(["--help"]) == 0
heavy = {"tunelaunch.launch", "argparse", "platformdirs", "pynvml", "importlib.metadata", "tempfile"}
sys.exit(sorted(heavy & set(sys.modules)) or 0)
"""
    started = host.start(program=["-c", program])
    assert (started.code, started.stderr) == (0, "")


def test_the_console_script_and_the_module_are_the_same(host: Any) -> None:
    program = "from tunelaunch.cli.main import main; raise SystemExit(main())"
    started = host.start(program=["-c", program, "--tp", "1", "--tunelaunch-tag=x"])
    assert started.argv == host.start("--tp", "1", "--tunelaunch-tag=x").argv == [b"--tp", b"1"]
    assert sys.executable
