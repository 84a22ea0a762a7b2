"""Findings about compiling FlashInfer's kernels on this host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tunelaunch.doctor.findings import Finding, Severity
from tunelaunch.doctor.toolkit import GIB_PER_JOB, Toolkit

_FIRST_CUDA: Mapping[tuple[int, int], tuple[int, int]] = {
    (9, 0): (12, 0),
    (10, 0): (12, 8),
    (10, 3): (12, 9),
    (12, 0): (12, 8),
    (12, 1): (12, 9),
}
"""First CUDA toolkit that compiles for an SM version."""

_OOM_LINK = "https://github.com/flashinfer-ai/flashinfer/issues/3634"


def check_toolkit(tools: Toolkit, capability: tuple[int, int] | None, torch_cuda: str | None) -> Iterator[Finding]:
    """Whether the modules that a start needs are there or can be compiled. ``torch_cuda`` is text such as ``13.0``."""
    ready = bool(tools.moe_modules)
    lacking = [name for name, path in (("nvcc", tools.nvcc), ("ninja", tools.ninja)) if path is None]
    lacking += [] if tools.compiler else ["a C++ compiler"]
    if lacking:
        yield Finding(
            "jit.tools",
            Severity.WARNING if ready else Severity.BLOCKING,
            f"{' and '.join(lacking)} not found; FlashInfer's modules of fused MoE: {_modules(tools)}",
            "FlashInfer compiles every module that is not prebuilt when it is first used; that first use then fails",
            "install the CUDA toolkit and ninja (CUDA_HOME, PATH), or the package flashinfer-jit-cache of this release",
        )
    yield from _compiler(tools, capability, torch_cuda, ready)
    if not ready and not lacking:
        yield Finding(
            "jit.cold",
            Severity.NOTE,
            "FlashInfer's module of fused MoE is not built yet",
            "the first start compiles it, for minutes up to an hour, before the first tactic is timed; that is not a hang",
            "keep FlashInfer's cache directory, or install the package flashinfer-jit-cache of this release",
        )
    yield from _memory(tools, ready)


def _compiler(
    tools: Toolkit, capability: tuple[int, int] | None, torch_cuda: str | None, ready: bool
) -> Iterator[Finding]:
    if tools.nvcc and tools.cuda is None:
        yield Finding("jit.nvcc-version", Severity.UNKNOWN, f"{tools.nvcc} does not say its version")
    if tools.cuda is None:
        return
    version = "{}.{}".format(*tools.cuda)
    first = _FIRST_CUDA.get(capability) if capability else None
    if first is not None and capability is not None and tools.cuda < first:
        yield Finding(
            "jit.nvcc-old",
            Severity.WARNING if ready else Severity.BLOCKING,
            f"nvcc {version} ({tools.nvcc}) cannot compile for SM{capability[0]}{capability[1]}",
            f"that needs CUDA {first[0]}.{first[1]} or later",
            "install a newer toolkit and point CUDA_HOME to it",
        )
    if torch_cuda and torch_cuda.partition(".")[0] != str(tools.cuda[0]):
        yield Finding(
            "jit.nvcc-other",
            Severity.WARNING,
            f"nvcc is of CUDA {version}, torch of CUDA {torch_cuda}",
            "modules that are compiled here link against another runtime than the process has",
            f"point CUDA_HOME to a toolkit of CUDA {torch_cuda.partition('.')[0]}",
        )


def _memory(tools: Toolkit, ready: bool) -> Iterator[Finding]:
    if tools.memory_mib is None:
        yield Finding("jit.memory", Severity.UNKNOWN, "how much memory compilers may take could not be read")
        return
    wanted = tools.jobs * GIB_PER_JOB
    if wanted * 1024 <= tools.memory_mib:
        return
    safe = max(1, tools.memory_mib // (GIB_PER_JOB * 1024))
    how = f"MAX_JOBS={tools.jobs}" if tools.jobs_given else f"MAX_JOBS is not set: {tools.jobs} compilers at once"
    if tools.jobs_given and tools.jobs <= safe:
        return
    yield Finding(
        "jit.max-jobs",
        Severity.NOTE if ready else Severity.WARNING,
        f"{how}, up to {wanted} GiB, and {tools.memory_mib / 1024:.0f} GiB are available",
        "compilers that run out of memory are killed, and the start ends with them",
        f"set MAX_JOBS={safe}",
        _OOM_LINK,
    )


def _modules(tools: Toolkit) -> str:
    return ", ".join(tools.moe_modules[:4]) or "none built"
