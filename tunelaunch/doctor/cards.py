"""The state of each GPU as NVML tells it: what a finding may be about, beside the facts that name the card.

Guarantees: never raises; a query that a card does not answer is named in ``unanswered`` and its value is absent; nothing
is changed on the card and no CUDA context is made.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tunelaunch.device.facts import DeviceFacts

MAX_PROCESSES = 8


@dataclass(frozen=True)
class Cards:
    """State by NVML's index of a card; ``cuda`` is the newest CUDA that the driver serves, as (major, minor)."""

    states: Mapping[int, Mapping[str, Any]]
    cuda: tuple[int, int] | None = None


def read_cards(nvml: Any = None) -> Cards:
    """The states of all cards of the host; empty where NVML does not answer. ``nvml`` is ``pynvml`` or a stand-in."""
    try:
        nvml = nvml or importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # no driver, or none that works: device.nvml says which
        return Cards({})
    try:
        count = int(nvml.nvmlDeviceGetCount())
        cuda = _cuda(_value(lambda: int(nvml.nvmlSystemGetCudaDriverVersion())))
        return Cards({index: state_of(nvml, index) for index in range(count)}, cuda)
    except Exception:
        return Cards({})
    finally:
        _value(nvml.nvmlShutdown)


def state_of(nvml: Any, index: int) -> dict[str, Any]:
    """What NVML says now about card ``index``.

    Clocks are MHz, power is watts, temperature is degrees Celsius, memory is MiB; ``throttle`` is NVML's bit mask of
    reasons; ``processes`` is a list of ``{"pid", "memory_mib"}``.
    """
    found: dict[str, Any] = {}
    unanswered: list[str] = []
    card = _value(lambda: nvml.nvmlDeviceGetHandleByIndex(index))
    if card is None:
        return {"unanswered": ["everything"]}

    def add(name: str, query: Callable[[], Any]) -> None:
        try:
            found[name] = query()
        except Exception:  # Not Supported on this card, or not allowed for this user
            unanswered.append(name)

    add("mig", lambda: bool(nvml.nvmlDeviceGetMigMode(card)[0]))
    add("persistence", lambda: bool(nvml.nvmlDeviceGetPersistenceMode(card)))
    add("power_limit_w", lambda: round(nvml.nvmlDeviceGetPowerManagementLimit(card) / 1000))
    add("power_default_w", lambda: round(nvml.nvmlDeviceGetPowerManagementDefaultLimit(card) / 1000))
    add("sm_mhz", lambda: int(nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_SM)))
    add("sm_max_mhz", lambda: int(nvml.nvmlDeviceGetMaxClockInfo(card, nvml.NVML_CLOCK_SM)))
    add("throttle", lambda: int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(card)))
    add("celsius", lambda: int(nvml.nvmlDeviceGetTemperature(card, nvml.NVML_TEMPERATURE_GPU)))
    add("memory_used_mib", lambda: int(nvml.nvmlDeviceGetMemoryInfo(card).used) // 2**20)
    add("processes", lambda: _processes(nvml.nvmlDeviceGetComputeRunningProcesses(card)))
    return found | {"unanswered": unanswered}


def state_for(cards: Cards, device: DeviceFacts) -> Mapping[str, Any]:
    """The state of the card behind ``device`` (its index is NVML's)."""
    return cards.states.get(device.index, {}) if device.index is not None else {}


def _processes(running: list[Any]) -> list[dict[str, int | None]]:
    found = []
    for process in list(running)[:MAX_PROCESSES]:
        used = getattr(process, "usedGpuMemory", None)
        found.append({"pid": int(process.pid), "memory_mib": used // 2**20 if isinstance(used, int) else None})
    return found


def _cuda(number: int | None) -> tuple[int, int] | None:
    """NVML counts 13000 for CUDA 13.0."""
    return None if not number else (number // 1000, number % 1000 // 10)


def _value(query: Callable[[], Any]) -> Any:
    try:
        return query()
    except Exception:
        return None
