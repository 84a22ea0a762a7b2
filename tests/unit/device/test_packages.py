"""The digest of installed packages, over real distribution metadata on ``sys.path``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tunelaunch.device.packages import packages_digest

RECORD = "flashinfer/__init__.py,sha256=aaa,1\nflashinfer/data/x.so,sha256=bbb,2\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty site directory at the front of ``sys.path``, in a process that has not imported FlashInfer yet."""
    for name in [n for n in sys.modules if n.partition(".")[0] == "flashinfer"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def install(site: Path, record: str | None = RECORD, origin: str | None = None) -> None:
    package = site / "flashinfer"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text("raise RuntimeError('a digest must not import this')\n")
    info = site / "flashinfer_python-0.7.2.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: flashinfer-python\nVersion: 0.7.2\n")
    for name, text in (("RECORD", record), ("direct_url.json", origin)):
        if text is not None:
            (info / name).write_text(text)
    importlib.invalidate_caches()
    sys.path_importer_cache.clear()


def test_another_build_under_the_same_version_has_another_digest(site: Path) -> None:
    install(site)
    before = packages_digest()
    install(site, RECORD.replace("bbb", "ccc"))
    assert packages_digest() != before


def test_what_an_installer_or_a_place_adds_does_not_matter(site: Path) -> None:
    install(site)
    before = packages_digest()
    added = (
        "../../../bin/flashinfer,sha256=zzz,9\nflashinfer/__pycache__/__init__.cpython-311.pyc,,\n"
        "flashinfer_python-0.7.2.dist-info/INSTALLER,sha256=i,4\nflashinfer_python-0.7.2.dist-info/RECORD,,\n"
    )
    install(site, added + "".join(reversed(RECORD.splitlines(keepends=True))))
    assert packages_digest() == before


def test_an_installed_and_a_missing_package_differ(site: Path) -> None:
    without = packages_digest(("flashinfer-cubin-that-is-not-there",))
    assert len(without) == 64
    install(site)
    assert packages_digest(("flashinfer-python",)) != packages_digest(("flashinfer-cubin-that-is-not-there",))


@pytest.mark.parametrize("origin", [None, '{"dir_info": {"editable": true}, "url": "file:///x"}'])
def test_an_editable_installation_is_hashed_by_content(site: Path, origin: str | None) -> None:
    install(site, None if origin is None else RECORD, origin)
    before = packages_digest()
    (site / "flashinfer" / "core.py").write_text("x = 1\n")
    assert packages_digest() != before


def test_a_new_prebuilt_module_changes_the_digest(site: Path) -> None:
    install(site)
    before = packages_digest()
    module = site / "flashinfer" / "data" / "aot" / "moe" / "moe.so"
    module.parent.mkdir(parents=True)
    module.write_bytes(b"12345")
    assert packages_digest() != before
