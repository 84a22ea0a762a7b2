"""``python -m tunelaunch.doctor.facts PART... [-- ARGUMENTS]``: what only a process with torch and SGLang can say.

Run by :mod:`tunelaunch.doctor.asking` so that the command line stays light. Prints one JSON object on the standard output
that it was started with; whatever the libraries print goes to standard error. Parts: ``environment`` (devices as a
rank sees them, with their environments) and ``sglang`` (probes, gate, cache directories, arguments). A part that fails
is named in ``problems`` and does not stop the others.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tunelaunch.device.environment import Environment
from tunelaunch.device.facts import DeviceFacts

PARTS = ("environment", "sglang")


def collect(parts: Sequence[str], arguments: Sequence[str]) -> dict[str, Any]:
    """The answer to ``parts``; ``arguments`` are SGLang's."""
    problems: list[str] = []
    found: dict[str, Any] = {"problems": problems}
    if "sglang" in parts:  # first: importing SGLang moves FlashInfer's cache directory, as in a rank
        _try("SGLang", problems, lambda: found.update(_sglang(arguments, problems)))
    if "environment" in parts:
        _try("FlashInfer", problems, lambda: found.update(_environments(problems)))
    return found


def _sglang(arguments: Sequence[str], problems: list[str]) -> dict[str, Any]:
    from tunelaunch.hosts import asked, sglang

    found: dict[str, Any] = {"sglang": {"version": sglang.version(), "missing": None}}
    found["directories"] = asked.cache_directories()
    _try("SGLang's parser", problems, lambda: found.update(arguments=asked.parse_arguments(arguments)))

    def probe() -> None:
        found["sglang"]["missing"] = sglang.probe()
        found["gate"] = asked.gate()

    _try("SGLang's autotune module", problems, probe)
    return found


def _environments(problems: list[str]) -> dict[str, Any]:
    import torch

    from tunelaunch.device.packages import packages_digest
    from tunelaunch.device.torch_facts import facts_from_torch
    from tunelaunch.hosts import flashinfer

    found: dict[str, Any] = {"torch": {"version": torch.__version__, "cuda": torch.version.cuda}}
    found["flashinfer"] = {"version": flashinfer.version(), "missing": None}
    _try("FlashInfer's autotuner", problems, lambda: found["flashinfer"].update(missing=flashinfer.probe()))
    digest = packages_digest()
    known: dict[str, dict[str, str]] = {}

    def environment(facts: DeviceFacts) -> Environment:
        # The metadata names the current device, so it is asked once a model of GPU, in that GPU's context.
        if facts.title not in known:
            if facts.index is not None:
                torch.cuda.set_device(facts.index)
                torch.backends.cudnn.version()
            known[facts.title] = flashinfer.metadata()
        info = {"sglang": _installed("sglang")}
        return Environment.of(facts, flashinfer=known[facts.title], packages=digest, info=info)

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    devices = [facts_from_torch(index) for index in range(count)]
    found["devices"] = [
        {"device": facts.to_json(), "environment": environment(facts).to_json()} for facts in devices
    ]  # fmt: skip
    if not devices:
        # Without a GPU the fields of the libraries are known all the same; those of the device are not.
        found["libraries"] = environment(DeviceFacts("unknown")).to_json()
    return found


def _installed(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _try(what: str, problems: list[str], action: Callable[[], None]) -> None:
    try:
        action()
    except Exception as why:  # an import of the host libraries can fail in any way; that is an answer, too
        problems.append(f"{what}: {type(why).__name__}: {' '.join(str(why).split())[:300]}")


def main(argv: Sequence[str]) -> int:
    """Answer on standard output; libraries that print there do it on standard error instead."""
    own = list(argv)
    arguments: list[str] = []
    if "--" in own:
        cut = own.index("--")
        own, arguments = own[:cut], own[cut + 1 :]
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    answer.write(json.dumps(collect(own, arguments)))
    answer.flush()
    # Libraries may hold threads or CUDA contexts that make an orderly exit slow.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
