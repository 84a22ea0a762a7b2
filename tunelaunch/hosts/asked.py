"""What SGLang and FlashInfer say about a start without making one: arguments, autotune gate, cache directories.

For a process of its own (``python -m tunelaunch.doctor.facts``): the imports take seconds and set variables. Guarantees:
SGLang's own parser and gate are read, their rules are not repeated here; arguments are *raw*, since resolving them needs
the device and the model; nothing of a model is loaded.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tunelaunch.hosts import sglang as host

CACHE_VARIABLES = (
    "SGLANG_CACHE_DIR",
    "FLASHINFER_WORKSPACE_BASE",
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "CUDA_CACHE_PATH",
)
ASKED = (
    "model_path",
    "device",
    "quantization",
    "dtype",
    "moe_runner_backend",
    "speculative_moe_runner_backend",
    "moe_a2a_backend",
    "fp4_gemm_runner_backend",
    "fp8_gemm_runner_backend",
    "attention_backend",
    "disable_flashinfer_autotune",
    "enable_deterministic_inference",
    "tp_size",
    "dp_size",
    "ep_size",
    "base_gpu_id",
    "gpu_id_step",
)
"""Raw arguments that findings are about; those that a release does not have are left out."""


def parse_arguments(arguments: Sequence[str]) -> dict[str, Any]:
    """``{"raw": {...}}`` as SGLang's parser reads ``arguments``, or ``{"problem": text}`` where it refuses them.

    A ``--config`` file is merged by SGLang's own code. ``given`` names the arguments that differ from SGLang's default,
    ``lacking`` those that SGLang requires and that are not there (no reason not to read the others).
    """
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(prog="sglang", add_help=False)
    ServerArgs.add_cli_args(parser)
    required = [action for action in parser._actions if action.required]
    for action in required:
        action.required = False
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            merged = _with_config_file(parser, list(arguments))
            raw = vars(parser.parse_args(merged))
    except SystemExit:
        return {"problem": _last_line(complaint.getvalue()) or "SGLang's parser refuses the arguments"}
    except Exception as why:  # a config file that is missing or not YAML
        return {"problem": f"{type(why).__name__}: {why}"}
    found = {name: plain(raw[name]) for name in ASKED if name in raw}
    lacking = [action.option_strings[0] for action in required if raw.get(action.dest) == action.default]
    given = sorted(name for name in found if raw[name] != parser.get_default(name))
    return {"raw": found, "given": given, "lacking": lacking}


def gate() -> dict[str, Any]:
    """What SGLang's autotune gate says by its own code: ``moe_backends`` that it tunes, and ``refuses_deterministic``.

    Read from the compiled function, so that each release answers for itself; ``{}`` where it has another form.
    """
    module_name, _, name = host.GATE.rpartition(".")
    code = getattr(getattr(importlib.import_module(module_name), name, None), "__code__", None)
    if code is None:
        return {}
    backends = [
        constant
        for constant in code.co_consts
        if isinstance(constant, (tuple, frozenset)) and "flashinfer_cutlass" in constant
    ]
    return {
        "moe_backends": sorted(str(backend) for backend in backends[0]) if backends else None,
        "refuses_deterministic": "enable_deterministic_inference" in code.co_names,
    }


def cache_directories(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Where the caches of this process are: variables as they are after SGLang was imported, and defaults without them."""
    env = os.environ if environ is None else environ
    home = Path(env.get("HOME") or Path.home())
    try:
        from sglang.srt.environ import envs

        sglang_cache = str(envs.SGLANG_CACHE_DIR.get())
    except (ImportError, AttributeError):
        sglang_cache = env.get("SGLANG_CACHE_DIR", "")
    return default_directories({**env, "SGLANG_CACHE_DIR": sglang_cache, "HOME": str(home)})


def default_directories(environ: Mapping[str, str]) -> dict[str, str]:
    """The cache directory behind each of :data:`CACHE_VARIABLES`, from the variables and the libraries' own defaults.

    SGLang from 0.5.18 on moves those of others below its own when it is imported: :func:`cache_directories` sees that.
    """
    home = Path(environ.get("HOME") or "/")
    base = Path(environ.get("FLASHINFER_WORKSPACE_BASE") or home)
    user = environ.get("USER") or environ.get("LOGNAME") or str(os.getuid())
    temporary = Path(environ.get("TMPDIR") or "/tmp")
    found = {
        "SGLANG_CACHE_DIR": environ.get("SGLANG_CACHE_DIR") or str(home / ".cache" / "sglang"),
        "FLASHINFER_WORKSPACE_BASE": str(base / ".cache" / "flashinfer"),
        "TRITON_CACHE_DIR": environ.get("TRITON_CACHE_DIR") or str(home / ".triton" / "cache"),
        "TORCHINDUCTOR_CACHE_DIR": environ.get("TORCHINDUCTOR_CACHE_DIR") or str(temporary / f"torchinductor_{user}"),
        "CUDA_CACHE_PATH": environ.get("CUDA_CACHE_PATH") or str(home / ".nv" / "ComputeCache"),
    }
    return {name: str(Path(path).expanduser()) for name, path in found.items()}


def prebuilt_modules(workspace: Path) -> dict[str, list[str]]:
    """Names of FlashInfer's compiled modules: ``prebuilt`` (packages) and ``compiled`` below ``workspace``.

    Nothing is imported: only directories are listed. ``workspace`` is FlashInfer's cache directory.
    """
    packaged: set[str] = set()
    for package, below in (("flashinfer_jit_cache", "jit_cache"), ("flashinfer", "data/aot")):
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin:
            packaged |= _libraries(Path(spec.origin).parent / below)
    return {"prebuilt": sorted(packaged), "compiled": sorted(_libraries(workspace))}


def plain(value: Any) -> Any:
    """A raw argument as JSON has it; anything unusual becomes text."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _libraries(directory: Path) -> set[str]:
    try:
        return {path.stem for path in directory.rglob("*.so")}
    except OSError:
        return set()


def _with_config_file(parser: argparse.ArgumentParser, arguments: list[str]) -> list[str]:
    if "--config" not in arguments:
        return arguments
    for name in ("sglang.srt.utils.server_args_config_parser", "sglang.srt.server_args_config_parser"):
        if importlib.util.find_spec(name) is not None:
            return list(importlib.import_module(name).ConfigArgumentMerger(parser).merge_config_with_args(arguments))
    raise ValueError("--config cannot be read with this SGLang")


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].partition("error: ")[2] or lines[-1] if lines else ""
