"""What the state of a card leads to; the cards are recorded facts behind a fake NVML."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from doctorkit import GB10, H200, PRO, RTX, FakeCards, environment, fake_cards, told
from fake_nvml import NVMLError_LibraryNotFound, NVMLError_Unknown

from tunelaunch.device.facts import DeviceFacts
from tunelaunch.doctor import known
from tunelaunch.doctor.cards import read_cards
from tunelaunch.doctor.check_cards import check_cards, check_presence
from tunelaunch.doctor.findings import Finding, Severity
from tunelaunch.doctor.recorded import Known


def situation(nvml: FakeCards, *devices: Known, **environ: str) -> known.Situation:
    return known.from_host([], [], environ, timeout_s=1.0, nvml=nvml, asked=told(*devices))


def findings(card: DeviceFacts, **state: Any) -> dict[str, Finding]:
    facts = situation(fake_cards(replace(card, persistence=state.pop("persistence", True)), **state)).facts
    return {finding.id: finding for finding in check_cards(facts.devices)}


def test_a_healthy_card_has_no_finding() -> None:
    assert findings(PRO) == {}


@pytest.mark.parametrize(
    ("state", "slug", "severity", "words"),
    [
        ({"persistence": False}, "gpu.persistence", Severity.NOTE, "persistence mode is off"),
        ({"power_default_w": 700}, "gpu.power-limit", Severity.NOTE, "power limit 600 W, default 700 W"),
        ({"throttle": 0x40, "celsius": 92}, "gpu.throttle", Severity.WARNING, "hardware thermal slowdown; 92 C"),
        ({"throttle": 0x4}, "gpu.clocks", Severity.NOTE, "held down by the power limit (2400 MHz)"),
        ({"throttle": 0x2}, "gpu.clocks", Severity.NOTE, "application clock setting"),
        ({"processes": [(4711, 3 * 2**30)]}, "gpu.shared", Severity.WARNING, "pid 4711 (3072 MiB)"),
        ({"processes": [(4711, None)]}, "gpu.shared", Severity.WARNING, "pid 4711 (memory unknown)"),
        ({"mig": True}, "gpu.mig-empty", Severity.BLOCKING, "MIG is on and there is no instance"),
    ],
)
def test_each_state_has_its_finding(state: dict[str, Any], slug: str, severity: Severity, words: str) -> None:
    found = findings(PRO, **state)
    assert list(found) == [slug]
    assert found[slug].severity is severity
    assert words in found[slug].what


def test_a_gb10_that_answers_little_is_unknown_not_wrong() -> None:
    found = findings(GB10, power_default_w=None, throttle=None)
    assert list(found) == ["gpu.unanswered"]
    assert found["gpu.unanswered"].severity is Severity.UNKNOWN
    for query in ("power_limit_w", "power_default_w", "throttle", "memory_used_mib"):
        assert query in found["gpu.unanswered"].what


def test_a_mig_instance_is_a_note_with_its_profile() -> None:
    slice_of = replace(H200, mig_profile="1g.18gb", sm_count=16)
    found = list(check_cards([Known(slice_of, None, {"mig": True})]))
    assert [(f.id, f.severity) for f in found] == [("gpu.mig", Severity.NOTE)]
    assert "1g.18gb" in found[0].what


def test_different_cards_are_a_warning_that_names_both() -> None:
    facts = situation(fake_cards(PRO, RTX, persistence=True), CUDA_DEVICE_ORDER="PCI_BUS_ID").facts
    (found,) = [f for f in check_cards(facts.devices) if f.id == "gpu.mixed"]
    assert RTX.name in found.what
    assert PRO.name in found.what


def test_without_a_driver_no_gpu_is_visible() -> None:
    nvml = FakeCards([], init_error=NVMLError_LibraryNotFound("NVML Shared Library Not Found"))
    made = situation(nvml)
    found = list(check_presence(made.reading, None, None, len(made.facts.devices)))
    assert [f.id for f in found] == ["gpu.none"]
    assert "Library Not Found" in found[0].what
    assert read_cards(nvml).states == {}


def test_a_driver_that_fails_is_told_from_none() -> None:
    made = situation(FakeCards([], init_error=NVMLError_Unknown("Driver/library version mismatch")))
    found = list(check_presence(made.reading, None, None, 0))
    assert [f.id for f in found] == ["gpu.nvml", "gpu.none"]


def test_nvml_is_shut_down_again() -> None:
    nvml = fake_cards(PRO)
    assert read_cards(nvml).cuda == (13, 0)
    assert nvml.shutdowns == 1


def test_cuda_decides_what_a_card_is_and_nvml_its_state() -> None:
    nvml = fake_cards(replace(PRO, sm_count=None), sm_mhz=1000)
    seen_by_cuda = replace(PRO, driver=None, uuid="GPU-0000beef-0000", index=0)
    (device,) = situation(nvml, Known(seen_by_cuda, environment(PRO))).facts.devices
    assert (device.device.sm_count, device.device.driver) == (188, PRO.driver)
    assert device.state["sm_mhz"] == 1000
    assert device.environment is not None
    assert device.environment.id == environment(PRO).id


def test_only_cards_that_cuda_shows_are_judged() -> None:
    made = situation(fake_cards(PRO, RTX), CUDA_VISIBLE_DEVICES="1", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert [device.device.name for device in made.facts.devices] == [RTX.name]
