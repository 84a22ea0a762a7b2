"""What is known about this host, or a recorded one: NVML's devices joined with what a process with CUDA says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tunelaunch import __version__
from tunelaunch.device.environment import Environment
from tunelaunch.device.facts import DeviceFacts
from tunelaunch.device.nvml import NvmlReading, read_devices_within
from tunelaunch.device.visible import Visible, visible_devices
from tunelaunch.doctor import recorded
from tunelaunch.doctor.asking import Answer, ask
from tunelaunch.doctor.cards import Cards, read_cards, state_for
from tunelaunch.doctor.recorded import HostFacts, Known, Library

NVML_BOUND_S = 5.0


@dataclass(frozen=True)
class Situation:
    """Everything that a command is about to judge. ``live``: this host was asked, not a file.

    ``libraries`` is the environment without its device, where there is no GPU.
    """

    facts: HostFacts
    live: bool
    reading: NvmlReading = field(default_factory=NvmlReading)
    visible: Visible = field(default_factory=Visible)
    cards: Cards = field(default_factory=lambda: Cards({}))
    arguments: Mapping[str, Any] = field(default_factory=dict)
    gate: Mapping[str, Any] = field(default_factory=dict)
    directories: Mapping[str, str] = field(default_factory=dict)
    libraries: Environment | None = None
    problems: tuple[str, ...] = ()


def from_file(path: Path, answer: Answer | None = None) -> Situation:
    """A recorded host. ``answer`` is about the arguments, from the SGLang of this host."""
    facts = recorded.load(path)
    told = answer or Answer()
    data = told.data
    return Situation(
        facts,
        live=False,
        arguments=_mapping(data.get("arguments")),
        gate=_mapping(data.get("gate")),
        problems=(*facts.problems, *told.problems),
    )


def from_host(
    parts: Sequence[str],
    arguments: Sequence[str],
    environ: Mapping[str, str],
    *,
    timeout_s: float,
    nvml: Any = None,
    asked: Answer | None = None,
) -> Situation:
    """This host. ``nvml`` stands in for ``pynvml``; ``asked`` replaces the question to SGLang and FlashInfer."""
    reading = read_devices_within(NVML_BOUND_S, nvml)
    cards = read_cards(nvml) if reading.devices else Cards({})
    visible = visible_devices(reading.devices, environ)
    answer = ask(parts, arguments, timeout_s=timeout_s, environ=environ) if asked is None else asked
    data = answer.data
    libraries = data.get("libraries")
    facts = HostFacts(
        devices=join(visible.devices, data.get("devices") or (), cards),
        sglang=Library.from_json(data.get("sglang")) if data.get("sglang") else Library(_installed("sglang")),
        flashinfer=Library.from_json(data.get("flashinfer"))
        if data.get("flashinfer")
        else Library(_installed("flashinfer-python")),
        torch=_mapping(data.get("torch")),
        problems=answer.problems,
        written={"at": f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}", "tunelaunch": __version__},
    )
    return Situation(
        facts,
        live=True,
        reading=reading,
        visible=visible,
        cards=cards,
        arguments=_mapping(data.get("arguments")),
        gate=_mapping(data.get("gate")),
        directories=_mapping(data.get("directories")),
        libraries=Environment.from_json(libraries) if isinstance(libraries, Mapping) else None,
        problems=answer.problems,
    )


def join(shown: Sequence[DeviceFacts], told: Sequence[Mapping[str, Any]], cards: Cards) -> tuple[Known, ...]:
    """One entry a GPU. CUDA's word counts for what makes an identity, NVML's for the rest.

    ``shown`` is NVML's view in order, ``told`` what the process with CUDA said (``{"device", "environment"}``).
    """
    answers = [Known.from_json(item) for item in told]
    if not shown:
        return tuple(answers)
    found = []
    for device in shown:
        match = next((a for a in answers if a.device.uuid and a.device.uuid == device.uuid), None)
        match = match or next((a for a in answers if a.device.slug == device.slug), None)
        state = state_for(cards, device)
        if match is None:
            found.append(Known(device, None, state))
            continue
        same = match.device
        facts = replace(
            device,
            name=same.name,
            capability=same.capability or device.capability,
            sm_count=same.sm_count or device.sm_count,
            mig_profile=same.mig_profile,
        )
        found.append(Known(facts, _with_driver(match.environment, device.driver), state))
    return tuple(found)


def _with_driver(environment: Environment | None, driver: str | None) -> Environment | None:
    if environment is None or driver is None:
        return environment
    return Environment({**environment.fields, "info.driver": driver})


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _installed(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name) or None
    except PackageNotFoundError:
        return None
