"""The state of the card around a measurement: clocks, throttling, temperature, neighbours. Evidence, never a verdict."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any


def snapshot(uuid: str | None, nvml: Any = None) -> dict[str, Any]:
    """What NVML says now about the card with ``uuid``; each fact that cannot be had is left out. Never raises.

    Clocks are in MHz, temperature in degrees Celsius, power in watts. ``throttle`` is NVML's bit mask of reasons, and
    ``other_processes`` the number of processes on the card besides this one's session.
    """
    if uuid is None:
        return {}
    try:
        nvml = nvml or importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:
        return {}
    found: dict[str, Any] = {}
    try:
        card = nvml.nvmlDeviceGetHandleByUUID(uuid)
        _add(found, "sm_mhz", lambda: int(nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_SM)))
        _add(found, "memory_mhz", lambda: int(nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_MEM)))
        _add(found, "throttle", lambda: int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(card)))
        _add(found, "celsius", lambda: int(nvml.nvmlDeviceGetTemperature(card, nvml.NVML_TEMPERATURE_GPU)))
        _add(found, "watts", lambda: round(nvml.nvmlDeviceGetPowerUsage(card) / 1000.0, 1))
        _add(found, "other_processes", lambda: _others(nvml.nvmlDeviceGetComputeRunningProcesses(card)))
    except Exception:
        pass
    finally:
        _add({}, "", nvml.nvmlShutdown)
    return found


def _add(found: dict[str, Any], name: str, query: Callable[[], Any]) -> None:
    try:
        found[name] = query()
    except Exception:  # Not Supported on this card: the fact is unknown
        return


def _others(processes: list[Any]) -> int:
    """Processes of other sessions; the ranks of this server share ours."""
    mine = os.getsid(0)

    def foreign(pid: int) -> bool:
        try:
            return os.getsid(pid) != mine
        except OSError:  # of another container or user
            return pid != os.getpid()

    return sum(foreign(int(process.pid)) for process in processes)
