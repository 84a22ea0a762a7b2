"""Device facts of a process, from a fake ``torch`` whose only content is the CUDA functions of a fake GPU."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tunelaunch.device.facts import DeviceFacts
from tunelaunch.device.torch_facts import facts_from_torch


def unavailable(*_: Any) -> Any:
    raise RuntimeError("Found no NVIDIA driver on your system")


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """``torch.cuda`` of the fake: as on a host without a GPU, until a test gives it one."""
    names = ("current_device", "get_device_name", "get_device_capability", "get_device_properties")
    fake = SimpleNamespace(**dict.fromkeys(names, unavailable))
    module = ModuleType("torch")
    module.cuda = fake  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", module)
    return fake


def test_all_facts_of_a_gpu(cuda: SimpleNamespace) -> None:
    cuda.current_device = lambda: 1
    cuda.get_device_name = lambda number: f"NVIDIA H{number}00 MIG 1g.18gb"
    cuda.get_device_capability = lambda number: (9, 0)
    cuda.get_device_properties = lambda number: SimpleNamespace(
        multi_processor_count=132, total_memory=2**31, uuid="ab-1"
    )
    assert facts_from_torch() == DeviceFacts(
        "NVIDIA H100", (9, 0), 132, 2048, mig_profile="1g.18gb", uuid="GPU-ab-1", index=1
    )
    assert facts_from_torch(2).name == "NVIDIA H200"


def test_a_fact_that_cannot_be_had_is_missing_alone(cuda: SimpleNamespace) -> None:
    cuda.get_device_name = lambda number: "NVIDIA GB10"
    cuda.get_device_capability = lambda number: (12, 1)
    facts = facts_from_torch()
    assert (facts.name, facts.sm, facts.sm_count) == ("NVIDIA GB10", "sm121", None)


def test_without_any_gpu_nothing_is_known(cuda: SimpleNamespace) -> None:
    assert facts_from_torch() == DeviceFacts("unknown")
