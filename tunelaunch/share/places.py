"""Where a remote lies: a directory, an HTTP server that lists its directories (read only), or any fsspec file system.

Each place offers four things: list the names in a folder, read a file with a bound, write a file, say how it is called.
Guarantees: every failure is a :class:`ShareError` with a reason; a file of a directory appears whole or not at all; what
is missing for a scheme is said together with the command that installs it. Names come from the caller and are checked
there; none is ever taken from what a server answers without being matched first.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Protocol

from tunelaunch.errors import ShareError
from tunelaunch.share.bundle import read_file
from tunelaunch.share.url import NotFound, fetch_http, is_url, local_path, scheme, shown
from tunelaunch.store.files import atomic_write

MAX_LISTING_BYTES = 16 * 1024 * 1024
_EXTRAS = {
    "s3": "tunelaunch[s3]",
    "s3a": "tunelaunch[s3]",
    "gs": "tunelaunch[remote] gcsfs",
    "gcs": "tunelaunch[remote] gcsfs",
    "hf": "tunelaunch[remote] huggingface_hub",
    "sftp": "tunelaunch[remote] paramiko",
    "ssh": "tunelaunch[remote] paramiko",
    "abfs": "tunelaunch[remote] adlfs",
    "az": "tunelaunch[remote] adlfs",
}
_FOLDERLESS = frozenset({"s3", "s3a", "gs", "gcs", "hf", "abfs", "az"})
"""Object stores: a folder is only a part of a name, and to make one would make a bucket out of a typing error."""


class Place(Protocol):
    """A place that holds files in folders. ``folder`` and ``path`` are relative, with slashes; '' is the top."""

    name: str

    def list(self, folder: str) -> list[str]:
        """Names in ``folder``; empty where there is none."""

    def read(self, path: str, limit: int) -> bytes:
        """The file at ``path``; :class:`NotFound` where there is none."""

    def write(self, path: str, data: bytes) -> None:
        """Make the file at ``path``, and the folders above it."""


def open_place(url: str) -> Place:
    """The place that ``url`` (or a plain path) means. Nothing is made or read yet."""
    if not url.strip():
        raise ShareError("the remote is empty; give a directory or a URL, such as s3://bucket/prefix")
    if not is_url(url) or scheme(url) == "file":
        return DirectoryPlace(local_path(url) or Path(url).expanduser())
    if scheme(url) in ("http", "https"):
        return HttpPlace(url)
    return FsspecPlace(url)


class DirectoryPlace:
    """A directory, on a shared file system or not. Modes are what umask and setgid give."""

    def __init__(self, top: Path) -> None:
        self.top = top.absolute()
        self.name = str(self.top)

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(entry.name for entry in os.scandir(self.top / folder))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ShareError(f"{self.top / folder} cannot be listed ({error.strerror})") from None

    def read(self, path: str, limit: int) -> bytes:
        if not (self.top / path).exists():
            raise NotFound(f"{self.top / path} does not exist")
        return read_file(self.top / path, limit)

    def write(self, path: str, data: bytes) -> None:
        target = self.top / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(target, data)
        except OSError as error:
            raise ShareError(f"{target} cannot be written ({error.strerror})") from None


class HttpPlace:
    """A web server that shows its directories as pages with links (nginx autoindex, python -m http.server)."""

    _LINK = re.compile(rb"""href\s*=\s*["']?(?:\./)?([A-Za-z0-9][A-Za-z0-9._+-]{0,250})(?:/)?["'\s>]""", re.IGNORECASE)

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.name = shown(self.url)

    def list(self, folder: str) -> list[str]:
        try:
            page = fetch_http(f"{self.url}/{folder}/" if folder else f"{self.url}/", MAX_LISTING_BYTES)
        except NotFound:
            return []
        return sorted({match.decode("ascii") for match in self._LINK.findall(page)})

    def read(self, path: str, limit: int) -> bytes:
        return fetch_http(f"{self.url}/{path}", limit)

    def write(self, path: str, data: bytes) -> None:
        raise ShareError(f"{self.name} can only be read: push to the directory or bucket behind it")


class FsspecPlace:
    """Any file system that fsspec knows, such as s3, gs, hf or sftp."""

    def __init__(self, url: str) -> None:
        self.name = shown(url)
        self.kind = scheme(url)
        self.fs, top = _open(url)
        self.top = top.rstrip("/")

    def list(self, folder: str) -> list[str]:
        try:
            # The cached listing of an earlier call would hide what others have pushed since.
            self.fs.invalidate_cache()
            found = self.fs.ls(f"{self.top}/{folder}", detail=False)
        except FileNotFoundError:
            return []
        except Exception as error:
            raise self._failed("listed", error) from None
        return sorted(str(path).rstrip("/").rpartition("/")[2] for path in found)

    def read(self, path: str, limit: int) -> bytes:
        try:
            with self.fs.open(f"{self.top}/{path}", "rb") as file:
                raw = bytes(file.read(limit + 1))
        except FileNotFoundError:
            raise NotFound(f"{self.name}/{path} does not exist") from None
        except Exception as error:
            raise self._failed("read", error) from None
        if len(raw) > limit:
            raise ShareError(f"{self.name}/{path} has more than {limit} bytes")
        return raw

    def write(self, path: str, data: bytes) -> None:
        target = f"{self.top}/{path}"
        try:
            if self.kind not in _FOLDERLESS:
                self.fs.makedirs(target.rpartition("/")[0], exist_ok=True)
            self.fs.pipe_file(target, data)
        except Exception as error:
            raise self._failed("written", error) from None

    def _failed(self, what: str, error: Exception) -> ShareError:
        # Whatever a driver raises (its own classes, a network's, a credential's) is one thing here: not reached.
        text = " ".join(str(error).split())[:300]
        return ShareError(f"{self.name} cannot be {what} ({type(error).__name__}: {text})")


def fsspec_file(url: str, limit: int) -> bytes:
    """The one file behind ``url``, ``limit`` bytes at most."""
    top, _, name = url.rpartition("/")
    return FsspecPlace(top).read(name, limit)


def _open(url: str) -> tuple[Any, str]:
    kind = scheme(url)
    extra = _EXTRAS.get(kind, "tunelaunch[remote]")
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ShareError(f"{shown(url)} needs the package fsspec; run: pip install {_quoted(extra)}") from None
    try:
        fs, top = url_to_fs(url)
    except ImportError as error:
        raise ShareError(f"{shown(url)} needs a driver ({error}); run: pip install {_quoted(extra)}") from None
    except Exception as error:
        raise ShareError(f"{shown(url)} cannot be opened ({type(error).__name__}: {str(error)[:300]})") from None
    return fs, top


def _quoted(extra: str) -> str:
    return " ".join(f"'{part}'" if "[" in part else part for part in extra.split())
