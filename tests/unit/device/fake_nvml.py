"""A fake NVML: answers like the ``pynvml`` module for GPUs that this machine does not have.

Built from recorded facts; a fact that is ``None`` raises ``NVMLError_NotSupported``, as real cards do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

from tunelaunch.device.facts import DeviceFacts


class NVMLError_LibraryNotFound(Exception):
    """As pynvml names it; raised where no driver is installed."""


class NVMLError_NotSupported(Exception):
    """As pynvml names it; raised for a query that a card does not answer."""


class NVMLError_Unknown(Exception):
    """As pynvml names it; a driver that fails."""


@dataclass(frozen=True)
class Gpu:
    """One card of the fake host; ``cores`` is derived from the SM count unless given; ``slices`` are MIG devices."""

    facts: DeviceFacts
    cores: int | None = None
    slices: Sequence[DeviceFacts] = ()
    lost: bool = False


@dataclass
class FakeNvml:
    """The functions that tunelaunch calls. ``init_error`` makes ``nvmlInit`` fail; ``bytes_names``: old binding."""

    gpus: Sequence[Gpu]
    init_error: Exception | None = None
    count_error: Exception | None = None
    bytes_names: bool = False
    shutdowns: int = field(default=0)

    def nvmlInit(self) -> None:
        if self.init_error:
            raise self.init_error

    def nvmlShutdown(self) -> None:
        self.shutdowns += 1

    def nvmlSystemGetDriverVersion(self) -> str | bytes:
        return self._text(self.gpus[0].facts.driver if self.gpus else "580.0")

    def nvmlDeviceGetCount(self) -> int:
        if self.count_error:
            raise self.count_error
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:
        if self.gpus[index].lost:
            raise NVMLError_Unknown("GPU is lost")
        return self.gpus[index]

    def nvmlDeviceGetName(self, handle: Gpu) -> str | bytes:
        return self._text(handle.facts.title)

    def nvmlDeviceGetUUID(self, handle: Gpu) -> str | bytes:
        return self._text(handle.facts.uuid)

    def nvmlDeviceGetCudaComputeCapability(self, handle: Gpu) -> tuple[int, int]:
        return self._known(handle.facts.capability)

    def nvmlDeviceGetNumGpuCores(self, handle: Gpu) -> int:
        return self._known(handle.cores or (handle.facts.sm_count or 0) * 128 or None)

    def nvmlDeviceGetMemoryInfo(self, handle: Gpu) -> SimpleNamespace:
        return SimpleNamespace(total=self._known(handle.facts.memory_mib) * 2**20)

    def nvmlDeviceGetPowerManagementLimit(self, handle: Gpu) -> int:
        return self._known(handle.facts.power_limit_w) * 1000

    def nvmlDeviceGetPersistenceMode(self, handle: Gpu) -> int:
        return int(self._known(handle.facts.persistence))

    def nvmlDeviceGetMigMode(self, handle: Gpu) -> tuple[int, int]:
        return (1, 1) if handle.slices else self._known(None)

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Gpu) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Gpu, number: int) -> Gpu:
        return Gpu(self._known(handle.slices[number] if number < len(handle.slices) else None))

    def nvmlDeviceGetAttributes(self, handle: Gpu) -> SimpleNamespace:
        return SimpleNamespace(multiprocessorCount=self._known(handle.facts.sm_count))

    def _text(self, value: str | None) -> str | bytes:
        text = self._known(value)
        return text.encode() if self.bytes_names else text

    @staticmethod
    def _known(value):
        if value is None:
            raise NVMLError_NotSupported("Not Supported")
        return value


def host(*facts: DeviceFacts, **kwargs: object) -> FakeNvml:
    """A fake host with these cards, each with a UUID of its own."""
    cards = [Gpu(replace(f, uuid=f.uuid or f"GPU-{i:04x}beef-0000")) for i, f in enumerate(facts)]
    return FakeNvml(cards, **kwargs)  # type: ignore[arg-type]
