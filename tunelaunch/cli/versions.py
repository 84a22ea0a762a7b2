"""``tunelaunch --version``: what is installed, read from package metadata without importing any of it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from tunelaunch import __version__

PACKAGES = ("sglang", "flashinfer-python")


def version_lines() -> list[str]:
    """One line for tunelaunch and for each host library."""
    return [f"tunelaunch {__version__}", *(f"{name} {_installed(name)}" for name in PACKAGES)]


def _installed(name: str) -> str:
    try:
        return version(name) or "unknown"
    except PackageNotFoundError:
        return "not installed"
