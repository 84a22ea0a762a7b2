"""Which GPUs a process with a given environment will see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tunelaunch.device.facts import DeviceFacts
from tunelaunch.device.nvml import NvmlReading
from tunelaunch.device.recorded import recorded
from tunelaunch.device.visible import describe, visible_devices

DATA = Path(__file__).parents[2] / "data" / "devices.json"
PRO = recorded(DATA, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition")
RTX = recorded(DATA, "NVIDIA GeForce RTX 5090")
SAME = [replace(PRO, index=i, uuid=f"GPU-{u}") for i, u in enumerate(["aa11", "aa22", "bb33"])]
MIXED = [replace(PRO, index=0, uuid="GPU-1"), replace(RTX, index=1, uuid="GPU-2")]


@pytest.mark.parametrize(
    ("wanted", "indices"),
    [
        ("0", [0]),
        ("2,0", [2, 0]),
        (" 1 , 2 ", [1, 2]),
        ("", []),
        ("-1", []),
        ("1,-1,0", [1]),
        ("0,7,1", [0]),
        ("GPU-bb", [2]),
        ("GPU-aa11,GPU-bb33", [0, 2]),
        ("GPU-aa", []),
        ("GPU-zz", []),
        ("all", []),
    ],
)
def test_cuda_visible_devices(wanted: str, indices: list[int]) -> None:
    visible = visible_devices(SAME, {"CUDA_VISIBLE_DEVICES": wanted})
    assert [d.index for d in visible.devices] == indices
    assert not visible.uncertain


def test_without_the_variable_all_are_visible() -> None:
    assert list(visible_devices(SAME, {}).devices) == SAME


@pytest.mark.parametrize("wanted", ["0,9", "GPU-aa", "1,1"])
def test_an_entry_that_ends_the_list_is_named(wanted: str) -> None:
    note = visible_devices(SAME, {"CUDA_VISIBLE_DEVICES": wanted}).note
    assert note is not None
    assert repr(wanted.rsplit(",", maxsplit=1)[-1]) in note


def test_different_cards_without_a_given_order_are_uncertain() -> None:
    assert visible_devices(MIXED, {}).uncertain
    assert visible_devices(MIXED, {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}).uncertain
    assert "uncertain" in describe(NvmlReading(tuple(MIXED)), {})


def test_an_order_or_a_uuid_makes_it_certain() -> None:
    assert not visible_devices(MIXED, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}).uncertain
    assert not visible_devices(MIXED, {"CUDA_VISIBLE_DEVICES": "GPU-2"}).uncertain


def test_mig_slices_by_uuid_and_one_of_a_card_by_default() -> None:
    parts = [replace(PRO, index=0, uuid=f"MIG-{n}", mig_profile="1g.24gb", sm_count=46) for n in range(2)]
    assert [d.uuid for d in visible_devices(parts, {"CUDA_VISIBLE_DEVICES": "MIG-1"}).devices] == ["MIG-1"]
    assert [d.uuid for d in visible_devices(parts, {}).devices] == ["MIG-0"]


def test_the_line_names_sm_and_family_and_counts_equal_cards() -> None:
    assert describe(NvmlReading((PRO,)), {}) == (
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition, SM120 (Blackwell RTX, 188 SMs)"
    )
    assert describe(NvmlReading(tuple(SAME)), {}).startswith("3x NVIDIA RTX PRO 6000")
    assert describe(NvmlReading((DeviceFacts("X", (13, 0)),)), {}) == "X, SM130 (SM count unknown)"


def test_the_line_says_why_there_is_none() -> None:
    assert describe(NvmlReading((), "Driver Not Loaded"), {}) == "no NVIDIA GPU visible (NVML: Driver Not Loaded)"
    hidden = describe(NvmlReading((PRO,)), {"CUDA_VISIBLE_DEVICES": ""})
    assert hidden == "no NVIDIA GPU visible (CUDA_VISIBLE_DEVICES hides all)"
