"""Findings about the GPUs: none, the wrong ones, slowed down, shared, or silent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tunelaunch.device.nvml import NvmlReading
from tunelaunch.doctor.findings import Finding, Severity
from tunelaunch.doctor.recorded import Known

# NVML's bits of the reasons for lower clocks (nvmlClocksEventReasons).
_POWER_CAP = 0x4
_SLOWED = {0x8: "hardware slowdown", 0x20: "software thermal slowdown", 0x40: "hardware thermal slowdown"}
_SLOWED |= {0x80: "power brake"}
_SETTING = 0x2


def check_presence(reading: NvmlReading, hidden: str | None, uncertain: str | None, count: int) -> Iterator[Finding]:
    """Whether there are GPUs to see: ``count`` are visible; ``hidden`` says why none is, ``uncertain`` what is unsure."""
    if reading.broken:
        yield Finding(
            "gpu.nvml",
            Severity.WARNING,
            f"NVML fails: {reading.problem}",
            "a driver that fails here often fails in CUDA, too",
            "run nvidia-smi; reload the driver or restart the container if it fails as well",
        )
    if not count:
        yield Finding(
            "gpu.none",
            Severity.WARNING,
            f"no NVIDIA GPU is visible ({hidden or reading.problem or 'no device'})",
            "FlashInfer tunes NVIDIA GPUs from SM90 on only; here tunelaunch is plain SGLang",
            "if there should be one: docker run --gpus all, the device plugin's resource limit, CUDA_VISIBLE_DEVICES",
        )
    if uncertain:
        yield Finding(
            "gpu.order",
            Severity.WARNING,
            uncertain,
            "NVML counts in PCI order, CUDA the fastest card first: the start may use another card than you mean",
            "set CUDA_DEVICE_ORDER=PCI_BUS_ID",
        )


def check_cards(devices: Sequence[Known]) -> Iterator[Finding]:
    """What the state of the visible cards means for tuning and serving."""
    for number, known in enumerate(devices):
        yield from _card(f"GPU {number if known.device.index is None else known.device.index}", known)
    slugs = {known.device.slug for known in devices}
    if len(slugs) > 1:
        yield Finding(
            "gpu.mixed",
            Severity.WARNING,
            f"the visible GPUs differ: {', '.join(sorted(known.device.title for known in devices))}",
            "ranks of one tensor-parallel group must agree on one table; with different cards the group stands aside",
            "choose equal cards with CUDA_VISIBLE_DEVICES",
        )


def _card(name: str, known: Known) -> Iterator[Finding]:
    state = known.state
    if state.get("mig") and known.device.mig_profile is None:
        yield Finding(
            "gpu.mig-empty",
            Severity.BLOCKING,
            f"{name}: MIG is on and there is no instance",
            "CUDA shows no device then",
            "create one (nvidia-smi mig -cgi PROFILE -C), or switch MIG off (nvidia-smi -mig 0)",
        )
    elif known.device.mig_profile is not None:
        yield Finding(
            "gpu.mig",
            Severity.NOTE,
            f"{name}: a MIG instance {known.device.mig_profile}",
            "instances of another size have tables of their own; clocks and power are shared with the neighbours",
        )
    yield from _speed(name, state)
    processes = state.get("processes") or []
    if processes:
        listed = ", ".join(f"pid {p['pid']} ({_mib(p.get('memory_mib'))})" for p in processes)
        yield Finding(
            "gpu.shared",
            Severity.WARNING,
            f"{name}: other processes compute on it: {listed}",
            "what is timed beside other work is worth less, and SGLang takes most of the memory",
            "end them, or choose another card, before a start that tunes",
        )
    silent = [str(query) for query in state.get("unanswered") or ()]
    if silent:
        yield Finding(
            "gpu.unanswered",
            Severity.UNKNOWN,
            f"{name}: NVML does not answer: {', '.join(silent)}",
            "normal for some cards (unified memory, MIG instances, workstation cards); not checked here",
        )


def _speed(name: str, state: Mapping[str, Any]) -> Iterator[Finding]:
    if state.get("persistence") is False:
        yield Finding(
            "gpu.persistence",
            Severity.NOTE,
            f"{name}: persistence mode is off",
            "the driver unloads between starts: the first CUDA call takes seconds longer, set limits are forgotten",
            "nvidia-smi -pm 1, or the service nvidia-persistenced",
        )
    limit, default = state.get("power_limit_w"), state.get("power_default_w")
    if isinstance(limit, int) and isinstance(default, int) and limit < default:
        yield Finding(
            "gpu.power-limit",
            Severity.NOTE,
            f"{name}: power limit {limit} W, default {default} W",
            "tables do not depend on it, but what is fastest at one limit need not be at another",
            f"tune at the limit that serves; to lift it: nvidia-smi -pl {default}",
        )
    throttle = state.get("throttle")
    if isinstance(throttle, int):
        slowed = [word for bit, word in _SLOWED.items() if throttle & bit]
        if slowed:
            yield Finding(
                "gpu.throttle",
                Severity.WARNING,
                f"{name}: slowed down now ({', '.join(slowed)}; {state.get('celsius', '?')} C, "
                f"{state.get('sm_mhz', '?')} of {state.get('sm_max_mhz', '?')} MHz)",
                "timings made now are not those of serving",
                "check cooling and power supply before a start that tunes",
            )
        elif throttle & (_POWER_CAP | _SETTING):
            why = "the power limit" if throttle & _POWER_CAP else "an application clock setting"
            yield Finding(
                "gpu.clocks",
                Severity.NOTE,
                f"{name}: clocks are held down by {why} ({state.get('sm_mhz', '?')} MHz)",
                "tactics are timed at these clocks",
                "" if throttle & _POWER_CAP else "to reset: nvidia-smi -rac",
            )


def _mib(value: object) -> str:
    return f"{value} MiB" if isinstance(value, int) else "memory unknown"
