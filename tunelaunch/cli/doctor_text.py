"""The result of ``tunelaunch doctor`` for people: what was seen, then the findings, worst first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from tunelaunch.cli.output import print_columns, printable
from tunelaunch.doctor.examine import Examination
from tunelaunch.doctor.findings import Finding, counts
from tunelaunch.doctor.recorded import Known, Library
from tunelaunch.doctor.toolkit import Toolkit

WIDTH = 110


def print_examination(examination: Examination) -> None:
    """Everything, for a terminal or a bug report."""
    print_columns(list(_seen(examination)))
    for finding in examination.findings:
        print()
        _finding(finding)
    print()
    total = counts(examination.findings)
    words = [f"{number} {severity}" for severity, number in total.items() if number]
    print(f"{len(examination.findings)} findings{': ' if words else ''}{', '.join(words)}")


def _seen(examination: Examination) -> Iterator[tuple[str, str]]:
    situation = examination.situation
    facts = situation.facts
    if not situation.live:
        yield "source", facts.source
    for known in facts.devices:
        yield "GPU", _gpu(known)
    if not facts.devices:
        yield "GPU", "none visible"
    drivers = {known.device.driver for known in facts.devices if known.device.driver}
    if drivers:
        cuda = situation.cards.cuda
        yield "driver", ", ".join(sorted(drivers)) + (f" (CUDA {cuda[0]}.{cuda[1]})" if cuda else "")
    yield "SGLang", _library(facts.sglang)
    yield "FlashInfer", _library(facts.flashinfer)
    if facts.torch:
        yield "torch", f"{facts.torch.get('version')}, CUDA {facts.torch.get('cuda') or 'none'}"
    given = situation.arguments.get("given")
    raw = situation.arguments.get("raw")
    if isinstance(raw, dict) and isinstance(given, list):
        yield "arguments", ", ".join(f"{name}={raw.get(name)}" for name in given) or "SGLang's defaults"
    if examination.tools is not None:
        yield from _tools(examination.tools)
    for state in examination.places:
        mount = "unknown" if state.mount is None else f"{state.mount.type} ({state.mount.kind})"
        free = "free space unknown" if state.free_mib is None else f"{state.free_mib / 1024:.1f} GiB free"
        there = "" if state.exists else ", not made yet"
        yield f"{state.place.owner} cache", f"{state.place.path}: {mount}, {free}{there}"


def _gpu(known: Known) -> str:
    device = known.device
    memory = "memory unknown" if device.memory_mib is None else f"{device.memory_mib / 1024:.0f} GiB"
    sms = "SM count unknown" if device.sm_count is None else f"{device.sm_count} SMs"
    table = f", environment {known.environment.id}" if known.environment is not None else ""
    return f"{device.title}, {device.family}, {sms}, {memory}{table}"


def _library(library: Library) -> str:
    if library.version is None:
        return "not installed"
    if library.missing is None:
        return f"{library.version} (not probed)"
    return f"{library.version} ({'all names found' if not library.missing else 'names missing'})"


def _tools(tools: Toolkit) -> Iterator[tuple[str, str]]:
    cuda = "" if tools.cuda is None else " {}.{}".format(*tools.cuda)
    yield "nvcc", f"{tools.nvcc or 'not found'}{cuda}"
    yield "ninja", tools.ninja or "not found"
    memory = "unknown" if tools.memory_mib is None else f"{tools.memory_mib / 1024:.0f} GiB"
    yield "compilers", f"{tools.jobs} at once{'' if tools.jobs_given else ' (MAX_JOBS not set)'}, {memory} available"
    built = f"{len(tools.prebuilt)} prebuilt, {len(tools.compiled)} compiled here"
    yield "modules", f"{built}; fused MoE: {', '.join(tools.moe_modules[:4]) or 'none'}"


def _finding(finding: Finding) -> None:
    _wrapped(f"{finding.severity.value.upper():<9}", f"{finding.what} [{finding.id}]")
    for label, text in (("why", finding.why), ("do", finding.do), ("see", finding.link or "")):
        if text:
            _wrapped(f"          {label:<4}", text)


def _wrapped(head: str, text: str) -> None:
    lines = textwrap.wrap(
        printable(text), WIDTH - len(head) - 1, break_long_words=False, break_on_hyphens=False
    )  # fmt: skip
    for number, line in enumerate(lines):
        print(f"{head if number == 0 else ' ' * len(head)} {line}")
