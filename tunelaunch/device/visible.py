"""Which of the host's GPUs CUDA will show to a process with a given environment.

Follows CUDA's rules for ``CUDA_VISIBLE_DEVICES``: indices, UUIDs or unique beginnings of one, ``MIG-`` UUIDs; the first
entry that names no device ends the list; empty means none. NVML counts in PCI order, CUDA only with
``CUDA_DEVICE_ORDER=PCI_BUS_ID``: where that matters, :class:`Visible` says so instead of guessing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tunelaunch.device.facts import DeviceFacts
from tunelaunch.device.nvml import NvmlReading


@dataclass(frozen=True)
class Visible:
    """Devices that CUDA will show, in order; ``note`` says what is uncertain or was not understood."""

    devices: tuple[DeviceFacts, ...] = ()
    uncertain: bool = False
    note: str | None = None


def visible_devices(devices: Sequence[DeviceFacts], environ: Mapping[str, str]) -> Visible:
    """The part of ``devices`` (NVML's order) that a process with ``environ`` sees."""
    wanted = environ.get("CUDA_VISIBLE_DEVICES")
    shown: tuple[DeviceFacts, ...]
    if wanted is None:
        shown, note, by_index = _first_of_each_card(devices), None, True
    else:
        shown, note, by_index = _selected(devices, wanted)
    ordered = environ.get("CUDA_DEVICE_ORDER", "").strip() == "PCI_BUS_ID"
    if by_index and shown and not ordered and len({d.slug for d in devices}) > 1:
        unsure = "the GPUs differ and CUDA_DEVICE_ORDER is not PCI_BUS_ID: which one is first is uncertain"
        return Visible(shown, True, f"{unsure}; {note}" if note else unsure)
    return Visible(shown, False, note)


def _first_of_each_card(devices: Sequence[DeviceFacts]) -> tuple[DeviceFacts, ...]:
    # CUDA enumerates one MIG slice of a card unless a slice is named.
    first: dict[int, DeviceFacts] = {}
    for position, device in enumerate(devices):
        first.setdefault(position if device.index is None else device.index, device)
    return tuple(first.values())


def _selected(devices: Sequence[DeviceFacts], wanted: str) -> tuple[tuple[DeviceFacts, ...], str | None, bool]:
    shown: list[DeviceFacts] = []
    by_index = False
    for entry in (part.strip() for part in wanted.split(",")):
        if entry in {"", "-1"}:
            break
        found = _find(devices, entry)
        if found is None or found in shown:
            what = "names no GPU" if found is None else "is listed twice"
            return tuple(shown), f"CUDA_VISIBLE_DEVICES: {entry!r} {what}, the list ends there", by_index
        by_index = by_index or entry.isdecimal()
        shown.append(found)
    return tuple(shown), None, by_index


def _find(devices: Sequence[DeviceFacts], entry: str) -> DeviceFacts | None:
    if entry.isdecimal():
        return next((d for d in devices if d.index == int(entry)), None)
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    matches = [d for d in devices if d.uuid and d.uuid.startswith(entry)]
    return matches[0] if len(matches) == 1 else None


def describe(reading: NvmlReading, environ: Mapping[str, str]) -> str:
    """The visible devices in one line: ``8x NVIDIA H200, SM90 (Hopper, 132 SMs)``, or why there is none."""
    visible = visible_devices(reading.devices, environ)
    if not visible.devices:
        if reading.devices:
            return f"no NVIDIA GPU visible ({visible.note or 'CUDA_VISIBLE_DEVICES hides all'})"
        return f"no NVIDIA GPU visible (NVML: {reading.problem or 'no device'})"
    titles = [_title(device) for device in visible.devices]
    counted = {title: titles.count(title) for title in titles}
    words = " and ".join(title if count == 1 else f"{count}x {title}" for title, count in counted.items())
    return f"{words} ({visible.note})" if visible.note else words


def _title(device: DeviceFacts) -> str:
    sms = "SM count unknown" if device.sm_count is None else f"{device.sm_count} SMs"
    family = device.family
    detail = f"{family[:-1]}, {sms})" if family.endswith(")") else f"{family} ({sms})"
    return f"{device.title}, {detail}"
