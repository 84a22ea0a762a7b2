"""Findings over whole hosts: releases, plugins, what can be tuned, advisories; recorded cards behind a fake NVML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from doctorkit import GATE, GB10, H200, PRO, RTX, environment, fake_cards, host, is_valid, save, told

from tunelaunch.device.facts import DeviceFacts
from tunelaunch.device.recorded import recorded
from tunelaunch.doctor import advisories, known
from tunelaunch.doctor.check_host import check_plugins, check_releases, check_tunable, installed_plugins
from tunelaunch.doctor.examine import examine
from tunelaunch.doctor.findings import Finding, Severity, is_blocked, ordered
from tunelaunch.doctor.recorded import Known, Library

TODAY = date(2026, 12, 1)
B200 = recorded(Path(__file__).parents[2] / "data" / "devices.json", "NVIDIA B200")
A100 = DeviceFacts("NVIDIA A100-SXM4-80GB", (8, 0), 108)


def judge(tmp_path: Path, card: DeviceFacts, raw: Mapping[str, Any] | None = None, **data: Any) -> dict[str, Finding]:
    """All findings of a live host with ``card``, whose SGLang read ``raw``."""
    environ = {"PATH": "", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    seen = Known(replace(card, uuid="GPU-0000beef-0000"), environment(card))
    answer = told(seen, raw={"moe_runner_backend": "auto", **(raw or {})}, **data)
    made = known.from_host([], [], environ, timeout_s=1.0, nvml=fake_cards(card, persistence=True), asked=answer)
    examination = examine(made, tmp_path / "root", environ, TODAY)
    is_valid(examination.to_json(), "doctor")
    return {finding.id: finding for finding in examination.findings}


@pytest.mark.parametrize("backend", ["flashinfer_trtllm", "flashinfer_trtllm_routed"])
@pytest.mark.parametrize("card", [PRO, RTX, GB10, H200], ids=lambda card: card.slug)
def test_trtllm_moe_blocks_on_every_card_but_sm100(tmp_path: Path, card: DeviceFacts, backend: str) -> None:
    found = judge(tmp_path, card, {"moe_runner_backend": backend})
    slug = "trtllm-moe-before-blackwell" if card is H200 else "trtllm-moe-on-sm12x"
    finding = found[f"advisory.{slug}"]
    assert finding.severity is Severity.BLOCKING
    assert "--moe-runner-backend flashinfer_cutlass" in finding.do
    assert next(iter(found.values())).severity is Severity.BLOCKING


def test_trtllm_moe_is_right_on_a_b200(tmp_path: Path) -> None:
    found = judge(tmp_path, B200, {"moe_runner_backend": "flashinfer_trtllm"})
    assert not [slug for slug in found if slug.startswith("advisory.trtllm-moe")]
    assert "advisory.tile-192-nan" not in found


def test_tile_192_concerns_only_the_releases_that_it_names(tmp_path: Path) -> None:
    raw = {"moe_runner_backend": "flashinfer_trtllm"}
    for version, there in (("0.6.15", False), ("0.6.16.post4", True), ("0.6.17", True), ("0.6.18", False)):
        found = judge(tmp_path, B200, raw, flashinfer={"version": version, "missing": []})
        assert ("advisory.tile-192-nan" in found) is there, version
    assert judge(tmp_path, B200, {}, flashinfer={"version": "0.6.17", "missing": []})[
        "advisory.tile-192-nan"
    ].severity is Severity.UNKNOWN  # fmt: skip


def test_sm121_is_told_from_sm120(tmp_path: Path) -> None:
    assert "advisory.sm121-is-not-sm120" in judge(tmp_path, GB10)
    assert "advisory.sm121-is-not-sm120" not in judge(tmp_path, PRO)


def test_on_sm120_it_is_said_what_could_be_tuned(tmp_path: Path) -> None:
    found = judge(tmp_path, PRO)
    assert "flashinfer_cutlass" in found["advisory.sm120-what-can-be-tuned"].do
    assert found["tunable.backend"].severity is Severity.UNKNOWN
    triton = judge(tmp_path, PRO, {"moe_runner_backend": "triton"})
    assert triton["tunable.backend"].severity is Severity.NOTE
    assert "flashinfer_cutlass" in triton["tunable.backend"].do
    assert triton["advisory.triton-moe-shared-memory"].severity is Severity.WARNING


@pytest.mark.parametrize(
    ("card", "raw", "slug"),
    [
        (A100, {}, "tunable.capability"),
        (PRO, {"device": "cpu"}, "tunable.device"),
        (PRO, {"disable_flashinfer_autotune": True}, "tunable.disabled"),
        (PRO, {"enable_deterministic_inference": True}, "tunable.deterministic"),
    ],
)
def test_a_start_with_nothing_to_tune_says_why(
    tmp_path: Path, card: DeviceFacts, raw: dict[str, Any], slug: str
) -> None:
    found = judge(tmp_path, card, raw)
    assert found[slug].severity is Severity.NOTE
    assert found[slug].what.startswith("nothing to tune: ")


def test_a_release_that_tunes_in_deterministic_mode_is_a_warning() -> None:
    raw = {"raw": {"enable_deterministic_inference": True, "moe_runner_backend": "flashinfer_cutlass"}}
    (found,) = check_tunable(raw, {**GATE, "refuses_deterministic": False}, (12, 0))
    assert found.severity is Severity.WARNING


def test_arguments_that_sglang_refuses_block() -> None:
    (found,) = check_tunable({"problem": "unrecognized arguments: --nonsense"}, GATE, (12, 0))
    assert found.severity is Severity.BLOCKING
    assert "--nonsense" in found.what


def test_arguments_that_are_not_all_there_are_judged_and_named() -> None:
    arguments = {"raw": {"moe_runner_backend": "triton"}, "given": ["moe_runner_backend"], "lacking": ["--model-path"]}
    found = [(finding.id, finding.severity) for finding in check_tunable(arguments, GATE, (12, 0))]
    assert found == [("arguments.incomplete", Severity.NOTE), ("tunable.backend", Severity.NOTE)]
    nothing_given = {**arguments, "given": []}
    assert [finding.id for finding in check_tunable(nothing_given, GATE, (12, 0))] == ["tunable.backend"]


@pytest.mark.parametrize(
    ("sglang", "flashinfer", "expected"),
    [
        (Library("0.5.16", ()), Library("0.6.14", ()), (None, None)),
        (Library("0.5.24", ()), Library("0.7.2", ()), (Severity.NOTE, None)),
        (Library("0.5.12", ("a.b",)), Library("0.6.9", ()), (Severity.WARNING, Severity.NOTE)),
        (Library("0.5.23"), Library(), (Severity.UNKNOWN, Severity.UNKNOWN)),
    ],
)
def test_support_is_probed_and_the_version_only_named(
    sglang: Library, flashinfer: Library, expected: tuple[Severity | None, Severity | None]
) -> None:
    found = {finding.id: finding.severity for finding in check_releases(sglang, flashinfer)}
    assert (found.get("release.sglang"), found.get("release.flashinfer")) == expected


def test_someone_elses_plugin_list_is_named_with_the_mend() -> None:
    (found,) = check_plugins(["other", "tunelaunch"], "third")
    assert (found.id, found.do) == ("plugin.whitelist", "SGLANG_PLUGINS=third,tunelaunch")
    found_both = list(check_plugins(["other", "tunelaunch"], "other"))
    assert [finding.id for finding in found_both] == ["plugin.whitelist", "plugin.others"]
    assert list(check_plugins(["tunelaunch", "tunelaunch-cpu-host"], None)) == []


def test_a_plugin_that_is_not_installed_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = check_plugins([], None)
    assert (found.id, found.severity) == ("plugin.missing", Severity.WARNING)
    info = tmp_path / "neighbour-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: neighbour\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[sglang.srt.plugins]\nneighbour = neighbour:register\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "neighbour" in installed_plugins()


def test_a_recorded_host_is_judged_without_this_hosts_tools(tmp_path: Path) -> None:
    facts = save(tmp_path / "facts.json", host(PRO))
    answer = told(raw={"moe_runner_backend": "flashinfer_trtllm"})
    examination = examine(known.from_file(facts, answer), tmp_path, {}, TODAY)
    assert is_blocked(examination.findings)
    assert (examination.tools, examination.places) == (None, ())
    assert "facts.recorded" in {finding.id for finding in examination.findings}


def test_an_old_driver_blocks_where_cuda_does_not_work(tmp_path: Path) -> None:
    nvml = fake_cards(PRO, persistence=True)
    nvml.cuda = 12080
    for devices, severity in (([], Severity.BLOCKING), ([Known(PRO, environment(PRO))], Severity.WARNING)):
        made = known.from_host([], [], {}, timeout_s=1.0, nvml=nvml, asked=told(*devices))
        found = {f.id: f for f in examine(made, tmp_path, {"PATH": "", "HOME": str(tmp_path)}, TODAY).findings}
        assert found["gpu.driver-old"].severity is severity
        assert "serves CUDA 12.8, torch is built for CUDA 13.0" in found["gpu.driver-old"].what


def test_hidden_cards_are_told_from_none(tmp_path: Path) -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "", "PATH": "", "HOME": str(tmp_path)}
    made = known.from_host([], [], environ, timeout_s=1.0, nvml=fake_cards(PRO), asked=told())
    found = {f.id: f for f in examine(made, tmp_path, environ, TODAY).findings}
    assert "CUDA_VISIBLE_DEVICES= hides all 1" in found["gpu.none"].what
    assert "advisory.no-device" in found


def test_every_advisory_is_whole_and_past_its_day_only_a_note() -> None:
    entries = advisories.load()
    assert len({entry.id for entry in entries}) == len(entries)
    conditions = {
        "sm",
        "sglang",
        "flashinfer",
        "several_ranks",
        "moe_runner_backend",
        "attention_backend",
        "quantization",
    }
    for entry in entries:
        assert entry.text
        assert entry.instead
        assert entry.expires > TODAY
        assert entry.link is None or entry.link.startswith("https://github.com/")
        assert entry.applies.keys() <= conditions
        for version in (entry.applies.get("sglang"), entry.applies.get("flashinfer")):
            assert version is None or advisories.in_range("0.6.17", version) is not None
    target = advisories.Target(sm="sm120", raw={"moe_runner_backend": "flashinfer_trtllm"})
    (late,) = advisories.advise(entries, target, date(2030, 1, 1))
    assert next(iter(advisories.advise(entries, target, TODAY))).severity is Severity.BLOCKING
    assert late.severity is Severity.NOTE
    assert "recorded until 2027-12-31" in late.what


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        ("0.6.16.post4", ">=0.6.16,<0.6.18", True),
        ("0.6.18.post1", ">=0.6.16,<0.6.18", False),
        ("0.6.18.post1", ">=0.6.18", True),
        ("0.7.0.dev20260922", ">=0.7", True),
        ("0.6.9+cu130", "<0.6.10", True),
        ("main", ">=0.1", None),
    ],
)
def test_version_ranges(version: str, wanted: str, expected: bool | None) -> None:
    assert advisories.in_range(version, wanted) is expected


def test_findings_are_ordered_worst_first_and_stay_in_order_otherwise() -> None:
    made = [Finding(str(number), severity, "x") for number, severity in enumerate([*reversed(Severity), *Severity])]
    assert [finding.severity for finding in ordered(made)] == [s for s in Severity for _ in range(2)]
    assert [finding.id for finding in ordered(made)][:2] == ["3", "4"]
