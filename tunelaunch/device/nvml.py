"""Device facts from NVML, without a CUDA context.

Guarantees: never raises; every query may fail alone and then only its fact is unknown (a GB10 answers Not Supported for
memory and power limit); NVML is shut down again; :func:`read_devices_within` returns in time even if the driver hangs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tunelaunch.device.facts import DeviceFacts, split_mig_name

_T = TypeVar("_T")

CORES_PER_SM = 128
"""CUDA cores of one SM from capability 8.6 on; read on an H200: 16896 / 128 = 132, as CUDA says."""

_ABSENT = ("LibraryNotFound", "DriverNotLoaded", "NoPermission")


@dataclass(frozen=True)
class NvmlReading:
    """Devices in NVML's order (a MIG slice counts as a device with its card's index), and what went wrong, if anything.

    ``broken`` tells a driver that fails from a host that simply has none.
    """

    devices: tuple[DeviceFacts, ...] = ()
    problem: str | None = None
    broken: bool = False


def read_devices(nvml: Any = None) -> NvmlReading:
    """What NVML says about every GPU of the host. ``nvml`` is the ``pynvml`` module or a stand-in for it."""
    try:
        nvml = nvml or _import_nvml()
    except Exception as why:
        return NvmlReading(problem=f"module pynvml: {_words(why)}")
    try:
        nvml.nvmlInit()
    except Exception as why:
        absent = any(mark in type(why).__name__ for mark in _ABSENT)
        return NvmlReading(problem=_words(why), broken=not absent)
    try:
        return _read(nvml)
    except Exception as why:
        return NvmlReading(problem=_words(why), broken=True)
    finally:
        _try(nvml.nvmlShutdown)


def read_devices_within(seconds: float, nvml: Any = None) -> NvmlReading:
    """:func:`read_devices`, given up after ``seconds``; a reading that hangs is left to die with the process."""
    box: list[NvmlReading] = []
    reader = threading.Thread(target=lambda: box.append(read_devices(nvml)), name="tunelaunch-nvml", daemon=True)
    reader.start()
    reader.join(seconds)
    return box[0] if box else NvmlReading(problem=f"no answer within {seconds:g} s", broken=True)


def _import_nvml() -> Any:
    import pynvml

    return pynvml


def _read(nvml: Any) -> NvmlReading:
    driver = _text(_try(nvml.nvmlSystemGetDriverVersion))
    count = int(nvml.nvmlDeviceGetCount())
    devices: list[DeviceFacts] = []
    problems: list[str] = [] if count else ["no device"]
    for index in range(count):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            card = _card(nvml, handle, index, driver)
        except Exception as why:
            problems.append(f"GPU {index}: {_words(why)}")
            continue
        devices += _slices(nvml, handle, card) or [card]
    return NvmlReading(tuple(devices), "; ".join(problems) or None, broken=bool(count and problems))


def _card(nvml: Any, handle: Any, index: int, driver: str | None) -> DeviceFacts:
    capability = _try(lambda: tuple(int(n) for n in nvml.nvmlDeviceGetCudaComputeCapability(handle)))
    return DeviceFacts(
        name=_text(_try(lambda: nvml.nvmlDeviceGetName(handle))) or "unknown",
        capability=(capability[0], capability[1]) if capability else None,
        sm_count=_sm_count(capability, _try(lambda: int(nvml.nvmlDeviceGetNumGpuCores(handle)))),
        memory_mib=_memory_mib(nvml, handle),
        driver=driver,
        uuid=_text(_try(lambda: nvml.nvmlDeviceGetUUID(handle))),
        index=index,
        power_limit_w=_try(lambda: round(nvml.nvmlDeviceGetPowerManagementLimit(handle) / 1000)),
        persistence=_try(lambda: bool(nvml.nvmlDeviceGetPersistenceMode(handle))),
    )


def _slices(nvml: Any, handle: Any, card: DeviceFacts) -> list[DeviceFacts]:
    """The MIG slices of a card; none where MIG is off or not a feature of it."""
    mode = _try(lambda: nvml.nvmlDeviceGetMigMode(handle)[0])
    if mode != 1:
        return []
    found = []
    for number in range(_try(lambda: int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))) or 0):
        piece = _try(lambda number=number: nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number))  # type: ignore[misc]
        if piece is not None:
            found.append(_slice(nvml, piece, card))
    return found


def _slice(nvml: Any, piece: Any, card: DeviceFacts) -> DeviceFacts:
    name, profile = split_mig_name(_text(_try(lambda: nvml.nvmlDeviceGetName(piece))) or card.name)
    return DeviceFacts(
        name=name,
        capability=card.capability,
        sm_count=_try(lambda: int(nvml.nvmlDeviceGetAttributes(piece).multiprocessorCount)),
        memory_mib=_memory_mib(nvml, piece),
        driver=card.driver,
        mig_profile=profile or "unknown",
        uuid=_text(_try(lambda: nvml.nvmlDeviceGetUUID(piece))),
        index=card.index,
        persistence=card.persistence,
    )


def _sm_count(capability: tuple[int, ...] | None, cores: int | None) -> int | None:
    # Older parts have 64 or 192 cores a SM, so the quotient would be a wrong number, not a missing one.
    if capability is None or capability < (8, 6) or not cores or cores % CORES_PER_SM:
        return None
    return cores // CORES_PER_SM


def _memory_mib(nvml: Any, handle: Any) -> int | None:
    return _try(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total) // 2**20)


def _try(query: Callable[[], _T]) -> _T | None:
    try:
        return query()
    except Exception:  # any query may be unsupported on some card; its fact is unknown then
        return None


def _text(value: object) -> str | None:
    # Releases of the binding before 11.5 answer with bytes.
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return text.strip() or None if isinstance(text, str) else None


def _words(why: BaseException) -> str:
    return str(why) or type(why).__name__
