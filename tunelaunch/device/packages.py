"""A digest of the installed FlashInfer packages: same version text, other build, other digest.

Hashed are the entries of each package's RECORD (path, hash and size of every installed file) and the listing of
prebuilt modules; the files themselves, gigabytes of them, only for editable installs, and there only ``*.py``. Left out
is what an installer or a place adds, scripts outside the package, byte code, and the installer's own notes, so that two
hosts with the same wheels agree whatever their paths and installers are.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterable, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

NAMES = ("flashinfer-python", "flashinfer-jit-cache", "flashinfer-cubin")

_NOTES = ("INSTALLER", "REQUESTED", "RECORD", "RECORD.jws", "direct_url.json", "uv_cache.json", "uv_build.json")


def packages_digest(names: Sequence[str] = NAMES) -> str:
    """sha256 (64 hex) over what is installed of ``names``, in that order; a package that is missing is noted in it."""
    digest = hashlib.sha256()
    for name in names:
        digest.update(f"[{name}]\n".encode())
        for line in _package_lines(name):
            digest.update(line.encode("utf-8", "surrogateescape") + b"\n")
    digest.update(b"[prebuilt]\n")
    for line in _prebuilt_lines():
        digest.update(line.encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest()


def _package_lines(name: str) -> Iterable[str]:
    root = _import_root(name)
    try:
        installed = distribution(name)
    except PackageNotFoundError:
        # A package that is only on the path (a source checkout) is still what runs.
        return ["missing"] if root is None else ["source", *_source_lines(root)]
    record = installed.read_text("RECORD")
    if record and not _is_editable(installed):
        return sorted(line for line in record.splitlines() if _is_content(line))
    return [f"editable {installed.version}", *(_source_lines(root) if root else ["nowhere"])]


def _is_content(line: str) -> bool:
    # A path with a comma is quoted in RECORD; none of the tests below depends on it.
    path = line.strip().strip('"').split(",", 1)[0]
    outside = path.startswith(("..", "/"))
    note = ".dist-info/" in path and path.rsplit("/", 1)[-1] in _NOTES
    return bool(path) and not outside and not note and not path.endswith(".pyc")


def _is_editable(installed: Distribution) -> bool:
    try:
        origin = json.loads(installed.read_text("direct_url.json") or "{}")
    except ValueError:
        return False
    info = origin.get("dir_info") if isinstance(origin, dict) else None
    return bool(isinstance(info, dict) and info.get("editable"))


def _source_lines(root: Path) -> Iterable[str]:
    for path in sorted(root.rglob("*.py")):
        try:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as why:
            content = f"unreadable ({type(why).__name__})"
        yield f"{path.relative_to(root).as_posix()},{content}"


def _prebuilt_lines() -> list[str]:
    root = _import_root("flashinfer-python")
    prebuilt = root / "data" / "aot" if root else None
    if prebuilt is None or not prebuilt.is_dir():
        return []
    files = (path for path in prebuilt.rglob("*") if path.is_file())
    return sorted(f"{path.relative_to(prebuilt).as_posix()},{path.stat().st_size}" for path in files)


def _import_root(name: str) -> Path | None:
    """The directory that ``import`` would use for the package, found without importing it."""
    module = "flashinfer" if name == "flashinfer-python" else name.replace("-", "_")
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin:
        return None
    return Path(spec.origin).parent
