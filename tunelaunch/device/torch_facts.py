"""Device facts of the current process, from torch; for SGLang's own processes, which have a CUDA context anyway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tunelaunch.device.facts import DeviceFacts, split_mig_name


def facts_from_torch(index: int | None = None) -> DeviceFacts:
    """Facts of CUDA device ``index`` (the current device when ``None``); what torch cannot say is ``None``."""
    import torch

    cuda = torch.cuda
    number = index if index is not None else _try(lambda: int(cuda.current_device()))
    full_name = _try(lambda: str(cuda.get_device_name(number))) or "unknown"
    capability = _try(lambda: cuda.get_device_capability(number))
    properties: Any = _try(lambda: cuda.get_device_properties(number))
    name, profile = split_mig_name(full_name)
    uuid = getattr(properties, "uuid", None)
    return DeviceFacts(
        name=name,
        capability=(int(capability[0]), int(capability[1])) if capability else None,
        sm_count=_int(getattr(properties, "multi_processor_count", None)),
        memory_mib=_mib(getattr(properties, "total_memory", None)),
        mig_profile=profile,
        uuid=f"GPU-{uuid}" if uuid is not None else None,
        index=number,
    )


def _try(query: Callable[[], Any]) -> Any:
    try:
        return query()
    except Exception:  # no driver, no device, or a torch without CUDA: the fact is unknown
        return None


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _mib(value: object) -> int | None:
    return value // 2**20 if isinstance(value, int) and value > 0 else None
