"""Whether FlashInfer's kernels can be compiled: real executables on a path of the test's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tunelaunch.doctor.check_toolkit import check_toolkit
from tunelaunch.doctor.findings import Severity
from tunelaunch.doctor.toolkit import Toolkit, available_mib, read_toolkit

READY = Toolkit(
    "/c/bin/nvcc", (13, 0), "/bin/ninja", "/bin/c++", 4, True, 200_000, prebuilt=("fused_moe_120", "norm")
)  # fmt: skip


def script(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_tools_are_found_in_flashinfers_order(tmp_path: Path) -> None:
    on_path = script(tmp_path / "bin" / "nvcc", "echo 'Cuda compilation tools, release 12.9, V12.9.1'")
    script(tmp_path / "bin" / "ninja")
    script(tmp_path / "bin" / "c++")
    home = script(tmp_path / "cuda" / "bin" / "nvcc", "echo 'release 13.0, V13.0.88'")
    path = {"PATH": str(tmp_path / "bin")}
    found = read_toolkit(path, {})
    assert (found.nvcc, found.cuda, found.ninja) == (str(on_path), (12, 9), str(tmp_path / "bin" / "ninja"))
    assert found.compiler == str(tmp_path / "bin" / "c++")
    moved = read_toolkit({**path, "CUDA_HOME": str(tmp_path / "cuda")}, {})
    assert (moved.nvcc, moved.cuda) == (str(home), (13, 0))
    gone = read_toolkit({**path, "CUDA_HOME": str(tmp_path / "nowhere")}, {})
    assert (gone.nvcc, gone.cuda) == (None, None)


def test_an_nvcc_that_says_nothing_has_no_version(tmp_path: Path) -> None:
    script(tmp_path / "nvcc", "exit 3")
    found = read_toolkit({"PATH": str(tmp_path)}, {})
    assert found.nvcc is not None
    assert found.cuda is None
    assert "jit.nvcc-version" in {finding.id for finding in check_toolkit(found, (12, 0), "13.0")}


@pytest.mark.parametrize(("given", "jobs"), [("6", 6), ("0", None), ("many", None), ("", None)])
def test_max_jobs_is_read_as_flashinfer_reads_it(given: str, jobs: int | None) -> None:
    found = read_toolkit({"PATH": "", "MAX_JOBS": given}, {})
    assert (found.jobs, found.jobs_given) == ((jobs, True) if jobs else ((os.cpu_count() or 1) + 2, False))


def test_available_memory_is_the_containers_where_that_is_less(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 99 kB\nMemAvailable:    8388608 kB\n")
    assert available_mib(meminfo, tmp_path) == 8192
    (tmp_path / "memory.max").write_text(f"{3 * 2**30}\n")
    (tmp_path / "memory.current").write_text(f"{2**30}\n")
    assert available_mib(meminfo, tmp_path) == 2048
    (tmp_path / "memory.max").write_text("max\n")
    assert available_mib(meminfo, tmp_path) == 8192
    assert available_mib(tmp_path / "none", tmp_path / "none") is None
    assert (available_mib() or 0) > 0


def test_a_complete_toolkit_with_prebuilt_modules_has_no_finding() -> None:
    assert list(check_toolkit(READY, (12, 0), "13.0")) == []


@pytest.mark.parametrize(
    ("changed", "capability", "torch_cuda", "slug", "severity"),
    [
        ({"nvcc": None, "cuda": None}, (12, 0), "13.0", "jit.tools", Severity.WARNING),
        ({"nvcc": None, "cuda": None, "prebuilt": ()}, (12, 0), "13.0", "jit.tools", Severity.BLOCKING),
        ({"ninja": None, "prebuilt": ()}, (12, 0), "13.0", "jit.tools", Severity.BLOCKING),
        ({"prebuilt": ()}, (12, 0), "13.0", "jit.cold", Severity.NOTE),
        ({"cuda": (12, 6)}, (12, 0), "12.6", "jit.nvcc-old", Severity.WARNING),
        ({"cuda": (12, 8)}, (12, 1), "12.8", "jit.nvcc-old", Severity.WARNING),
        ({"cuda": (12, 9)}, (12, 0), "13.0", "jit.nvcc-other", Severity.WARNING),
        ({"memory_mib": None}, (12, 0), "13.0", "jit.memory", Severity.UNKNOWN),
        ({"memory_mib": 20_000}, (12, 0), "13.0", "jit.max-jobs", Severity.NOTE),
    ],
)
def test_each_lack_has_its_finding(
    changed: dict[str, object],
    capability: tuple[int, int],
    torch_cuda: str,
    slug: str,
    severity: Severity,
) -> None:
    found = list(check_toolkit(Toolkit(**{**READY.__dict__, **changed}), capability, torch_cuda))
    assert [(finding.id, finding.severity) for finding in found] == [(slug, severity)]


def test_max_jobs_is_counted_against_memory() -> None:
    tools = Toolkit(**{**READY.__dict__, "prebuilt": (), "jobs": 20, "jobs_given": False, "memory_mib": 121 * 1024})
    (found,) = [f for f in check_toolkit(tools, (12, 1), "13.0") if f.id == "jit.max-jobs"]
    assert found.severity is Severity.WARNING
    assert "20 compilers at once, up to 160 GiB, and 121 GiB are available" in found.what
    assert found.do == "set MAX_JOBS=15"
