"""``doctor``: every check over what is known, as one list of findings and what was seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from tunelaunch.doctor import advisories
from tunelaunch.doctor.check_cards import check_cards, check_presence
from tunelaunch.doctor.check_host import check_plugins, check_releases, check_tunable, installed_plugins
from tunelaunch.doctor.check_places import check_places
from tunelaunch.doctor.check_toolkit import check_toolkit
from tunelaunch.doctor.findings import Finding, Severity, counts, ordered
from tunelaunch.doctor.known import Situation
from tunelaunch.doctor.mounts import read_mounts
from tunelaunch.doctor.places import PlaceState, look, places
from tunelaunch.doctor.toolkit import Toolkit, read_toolkit
from tunelaunch.hosts import asked

SCHEMA = "tunelaunch/doctor/1"


@dataclass(frozen=True)
class Examination:
    """Findings, worst first, and what they were found in. ``tools`` and ``places`` are this host's, or absent."""

    situation: Situation
    findings: tuple[Finding, ...]
    tools: Toolkit | None = None
    places: tuple[PlaceState, ...] = ()

    def to_json(self) -> dict[str, Any]:
        facts = self.situation.facts
        return {
            "schema": SCHEMA,
            "source": facts.source,
            "devices": [known.to_json() for known in facts.devices],
            "sglang": facts.sglang.to_json(),
            "flashinfer": facts.flashinfer.to_json(),
            "torch": dict(facts.torch),
            "arguments": dict(self.situation.arguments),
            "toolkit": None if self.tools is None else self.tools.to_json(),
            "places": [state.to_json() for state in self.places],
            "findings": [finding.to_json() for finding in self.findings],
            "counts": counts(self.findings),
        }


def examine(
    situation: Situation, root: Path, environ: Mapping[str, str], today: date, ignored: Sequence[str] = ()
) -> Examination:
    """All findings. What belongs to the host itself (tools, directories, plugins) is looked at only when it is this one.

    ``ignored`` are our own variables that a start would ignore, in words.
    """
    tools: Toolkit | None = None
    states: tuple[PlaceState, ...] = ()
    found = [*_devices(situation, environ)]
    found += [Finding("option.ignored", Severity.WARNING, line, do="correct or unset it") for line in ignored]
    capability = next((known.device.capability for known in situation.facts.devices), None)
    found += check_releases(situation.facts.sglang, situation.facts.flashinfer)
    found += check_tunable(situation.arguments, situation.gate, capability)
    found += _advisories(situation, today)
    if situation.live:
        directories = situation.directories or asked.default_directories(environ)
        mounts = read_mounts()
        states = tuple(look(place, mounts) for place in places(root, directories))
        tools = read_toolkit(environ, asked.prebuilt_modules(Path(directories["FLASHINFER_WORKSPACE_BASE"])))
        found += check_plugins(installed_plugins(), environ.get("SGLANG_PLUGINS"))
        found += check_places(states)
        if situation.facts.devices:
            found += check_toolkit(tools, capability, situation.facts.torch.get("cuda"))
    else:
        found.append(
            Finding(
                "facts.recorded",
                Severity.UNKNOWN,
                f"{situation.facts.source}: tools, directories and plugins of that host are not recorded",
                do="run tunelaunch doctor there",
            )
        )
    found += [Finding("asked.problem", Severity.UNKNOWN, problem) for problem in situation.problems]
    return Examination(situation, tuple(ordered(found)), tools, states)


def _devices(situation: Situation, environ: Mapping[str, str]) -> Iterator[Finding]:
    known = situation.facts.devices
    if situation.live:
        visible, reading = situation.visible, situation.reading
        hidden = visible.note
        if reading.devices and not visible.devices and hidden is None:
            hidden = f"CUDA_VISIBLE_DEVICES={environ.get('CUDA_VISIBLE_DEVICES', '')} hides all {len(reading.devices)}"
        yield from check_presence(reading, hidden, visible.note if visible.devices else None, len(known))
        yield from _driver(situation)
    elif not known:
        yield Finding("gpu.none", Severity.WARNING, f"{situation.facts.source} has no GPU")
    yield from check_cards(known)


def _driver(situation: Situation) -> Iterator[Finding]:
    wanted, serves = str(situation.facts.torch.get("cuda") or ""), situation.cards.cuda
    major = wanted.partition(".")[0]
    if serves is None or not major.isdigit() or int(major) <= serves[0]:
        return
    cuda_works = any(known.environment is not None for known in situation.facts.devices)
    yield Finding(
        "gpu.driver-old",
        Severity.WARNING if cuda_works else Severity.BLOCKING,
        f"the driver serves CUDA {serves[0]}.{serves[1]}, torch is built for CUDA {wanted}",
        "CUDA of a newer major version needs a newer driver, or the forward-compatibility package",
        "update the driver, or install torch for an older CUDA",
    )


def _advisories(situation: Situation, today: date) -> Iterator[Finding]:
    raw = situation.arguments.get("raw")
    if not situation.facts.devices:
        yield Finding(
            "advisory.no-device",
            Severity.UNKNOWN,
            "what is known to be wrong for a card and a backend was not looked at: no GPU is known here",
            do="tunelaunch doctor --facts FILE, with a file that --save-facts wrote on the host that serves",
        )
    seen: set[str] = set()
    for sm in dict.fromkeys(known.device.sm for known in situation.facts.devices):
        what = advisories.Target(
            sm=None if sm == "sm-unknown" else sm,
            sglang=situation.facts.sglang.version,
            flashinfer=situation.facts.flashinfer.version,
            raw=raw if isinstance(raw, Mapping) else None,
        )
        for finding in advisories.advise(advisories.load(), what, today):
            if finding.id not in seen:
                seen.add(finding.id)
                yield finding
