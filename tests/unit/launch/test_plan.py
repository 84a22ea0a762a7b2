"""What a start decides, without any effect on the host."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import platformdirs
import pytest

from tunelaunch.contract import Contract
from tunelaunch.device.nvml import NvmlReading
from tunelaunch.device.recorded import recorded
from tunelaunch.errors import TunelaunchError
from tunelaunch.launch import LaunchPlan, Own, cache_root, overlay_dir, plan_launch

PRO = recorded(Path(__file__).parents[2] / "data" / "devices.json", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition")
NOW = datetime(2026, 2, 3, 4, 5, 6, tzinfo=timezone.utc)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_RUNTIME_DIR": str(tmp_path), "TUNELAUNCH_CACHE_DIR": str(tmp_path / "root")}


def plan(own: Own, environ: dict[str, str], reading: NvmlReading | None = None, visible: bool = True) -> LaunchPlan:
    return plan_launch(
        own,
        ["--tp", "2"],
        environ,
        NOW,
        pid=77,
        read_nvml=lambda: reading or NvmlReading((replace(PRO, index=0),)),
        plugin_visible=lambda: visible,
    )


def applied(made: LaunchPlan, environ: dict[str, str]) -> dict[str, str]:
    changed = {**environ, **made.environ}
    return {name: value for name, value in changed.items() if value is not None}


def test_the_line_names_card_sm_and_places(environ: dict[str, str], tmp_path: Path) -> None:
    made = plan(Own(), environ)
    assert made.launch is not None
    assert made.launch.startswith("20260203T040506Z-77-")
    assert made.notes == (
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition, SM120 (Blackwell RTX, 188 SMs), "
        f"table root {tmp_path / 'root'}, launch {made.launch}",
    )


def test_planning_leaves_nothing_on_disk(environ: dict[str, str], tmp_path: Path) -> None:
    plan(Own(), environ)
    assert list(tmp_path.iterdir()) == []


def test_the_ranks_read_back_what_was_asked_for(environ: dict[str, str]) -> None:
    own = Own(retune=True, mode="readonly", min_gain=4.5, effort="quick", tag="a b", verify="all", strict=True)
    made = plan(own, environ)
    seen = Contract.from_environ(applied(made, environ))
    assert seen == Contract(
        launch=str(made.launch),
        run_dir=str(made.run_dir),
        cache_dir=environ["TUNELAUNCH_CACHE_DIR"],
        retune=True,
        mode="readonly",
        strict=True,
        min_gain_percent=4.5,
        effort="quick",
        tag="a b",
        verify="all",
    )


def test_a_variable_that_the_line_overrules_does_not_reach_the_ranks(environ: dict[str, str]) -> None:
    environ |= {"TUNELAUNCH_LAUNCH": "stale", "TUNELAUNCH_EFFORT": "thorough", "TUNELAUNCH_DISABLE": "0"}
    seen = Contract.from_environ(applied(plan(Own(effort="quick"), environ), environ))
    assert seen is not None
    assert seen.effort == "quick"
    assert seen.launch != "stale"


@pytest.mark.parametrize(
    ("users", "becomes"),
    [("other", "other,tunelaunch"), ("a, b", "a, b,tunelaunch"), ("tunelaunch-x", "tunelaunch-x,tunelaunch")],
)
def test_a_whitelist_without_us_gets_us_and_one_line(environ: dict[str, str], users: str, becomes: str) -> None:
    made = plan(Own(), environ | {"SGLANG_PLUGINS": users})
    assert made.environ["SGLANG_PLUGINS"] == becomes
    assert [note for note in made.notes if "SGLANG_PLUGINS" in note] == [made.notes[-1]]


@pytest.mark.parametrize("users", ["", "tunelaunch", "other, tunelaunch "])
def test_a_whitelist_that_lets_us_in_is_left_alone(environ: dict[str, str], users: str) -> None:
    assert "SGLANG_PLUGINS" not in plan(Own(), environ | {"SGLANG_PLUGINS": users}).environ


@pytest.mark.parametrize(("value", "changed"), [("0", True), ("False", True), ("no", True), ("1", False), ("", False)])
def test_sglangs_cache_file_is_kept_in_use(environ: dict[str, str], value: str, changed: bool) -> None:
    made = plan(Own(), environ | {"SGLANG_FLASHINFER_AUTOTUNE_CACHE": value})
    assert (made.environ.get("SGLANG_FLASHINFER_AUTOTUNE_CACHE") == "1") is changed
    assert any("--retune" in note for note in made.notes) is changed


def test_no_gpu_is_said_and_stops_nothing(environ: dict[str, str]) -> None:
    made = plan(Own(strict=True), environ, NvmlReading((), "NVML Shared Library Not Found"))
    assert made.notes[0].startswith("no NVIDIA GPU visible (NVML: NVML Shared Library Not Found), table root ")
    assert made.run_dir is not None


def test_a_broken_driver_is_said_and_with_strict_refused(environ: dict[str, str]) -> None:
    broken = NvmlReading((), "Unknown Error", broken=True)
    assert any("NVML: Unknown Error" in note for note in plan(Own(), environ, broken).notes[1:])
    with pytest.raises(TunelaunchError, match="Unknown Error"):
        plan(Own(strict=True), environ, broken)


def test_a_wrong_variable_is_said_and_with_strict_refused(environ: dict[str, str]) -> None:
    environ["TUNELAUNCH_VERIFY"] = "maybe"
    assert any("TUNELAUNCH_VERIFY is ignored" in note for note in plan(Own(), environ).notes)
    with pytest.raises(TunelaunchError, match="TUNELAUNCH_VERIFY"):
        plan(Own(strict=True), environ)


def test_the_root_is_absolute_and_the_option_wins(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_root("a b/c", environ) == tmp_path / "a b" / "c"
    assert cache_root(None, environ) == tmp_path / "root"
    assert cache_root("~/x", {}) == tmp_path / "home" / "x"
    assert cache_root("~no-such-user/x", {}) == tmp_path / "~no-such-user" / "x"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root(None, {}) == tmp_path / "xdg" / "tunelaunch"


def raises(_: str) -> str:
    raise RuntimeError("could not determine the home directory")


@pytest.mark.parametrize("answer", [raises, lambda name: f"~/.cache/{name}"], ids=["newer", "older"])
def test_a_user_without_any_home_keeps_tables_in_the_overlay(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, answer: Callable[[str], str]
) -> None:
    # Only root can become a user that neither HOME nor the passwd file knows, so the two answers that releases of
    # platformdirs give to such a user are given here.
    monkeypatch.setattr(platformdirs, "user_cache_dir", answer)
    del environ["TUNELAUNCH_CACHE_DIR"]
    assert cache_root(None, environ) == overlay_dir(environ)


def test_the_overlay_is_beside_the_run_directories_for_launcher_and_ranks(environ: dict[str, str]) -> None:
    made = plan(Own(), environ)
    assert made.run_dir is not None
    assert overlay_dir(environ) == made.run_dir.parent / "cache"
    assert overlay_dir(applied(made, environ)) == made.run_dir.parent / "cache"


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_directory_that_is_not_safely_ours_is_not_used(environ: dict[str, str], tmp_path: Path, kind: str) -> None:
    taken = tmp_path / f"tunelaunch-{os.getuid()}"
    (tmp_path / "elsewhere").mkdir()
    taken.symlink_to(tmp_path / "elsewhere") if kind == "link" else taken.write_text("")
    made = plan(Own(), environ)
    assert made.run_dir is not None
    assert made.run_dir.parent.parent == tmp_path
    assert made.run_dir.parent.name.startswith(f"{taken.name}-")
