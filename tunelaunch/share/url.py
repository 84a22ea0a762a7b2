"""URLs: which need no package, and fetching one file over HTTP, bounded in size and time.

Guarantees: user names, passwords and queries of a URL never enter a message; a redirect never leads to another scheme.
"""

from __future__ import annotations

import re
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from tunelaunch.errors import ShareError

TIMEOUT_S = 30.0
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


def is_url(text: str) -> bool:
    """Whether ``text`` is a URL and no path."""
    return _SCHEME.match(text) is not None


def scheme(text: str) -> str:
    """``s3`` of ``s3://bucket/prefix``; ``file`` for a plain path."""
    match = _SCHEME.match(text)
    return match[1].lower() if match else "file"


def local_path(text: str) -> Path | None:
    """The path of a ``file://`` URL; ``None`` for anything else. Raises :class:`ShareError` for another host's."""
    if scheme(text) != "file" or not is_url(text):
        return None
    parts = urllib.parse.urlsplit(text)
    if parts.netloc not in ("", "localhost"):
        raise ShareError(f"{shown(text)} names a host; a file URL has three slashes: file:///path")
    return Path(urllib.parse.unquote(parts.path))


def shown(text: str) -> str:
    """``text`` without user, password, query and fragment."""
    if not is_url(text):
        return text
    try:
        parts = urllib.parse.urlsplit(text)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    except ValueError:
        return f"{scheme(text)}://..."


def fetch(url: str, limit: int, timeout_s: float = TIMEOUT_S) -> bytes:
    """The bytes behind ``url``, ``limit`` at most; any scheme (see ``places.py``). Raises :class:`ShareError`."""
    if scheme(url) not in ("http", "https"):
        from tunelaunch.share.places import fsspec_file

        return fsspec_file(url, limit)
    return fetch_http(url, limit, timeout_s)


def fetch_http(url: str, limit: int, timeout_s: float = TIMEOUT_S) -> bytes:
    """The bytes behind an ``http(s)`` URL. Raises :class:`NotFound` for 404 and :class:`ShareError`."""
    opener = urllib.request.build_opener(_SameKind())
    try:
        with opener.open(
            urllib.request.Request(url, headers={"User-Agent": "tunelaunch"}), timeout=timeout_s
        ) as answer:
            raw: bytes = answer.read(limit + 1)
    except urllib.error.HTTPError as error:
        error.close()
        kind = NotFound if error.code == 404 else ShareError
        raise kind(f"{shown(url)} answers {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:  # URLError is an OSError; http.client raises ValueErrors of its own
        raise ShareError(f"{shown(url)} cannot be reached ({getattr(error, 'reason', None) or error})") from None
    except Exception as error:  # http.client.HTTPException: a server that speaks something else
        raise ShareError(f"{shown(url)} does not answer as HTTP ({type(error).__name__})") from None
    if len(raw) > limit:
        raise ShareError(f"{shown(url)} has more than {limit} bytes")
    return raw


class NotFound(ShareError):
    """There is nothing behind this URL."""


class _SameKind(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        if scheme(newurl) not in ("http", "https") or (scheme(req.full_url) == "https" and scheme(newurl) == "http"):
            raise ShareError(f"{shown(req.full_url)} redirects to another scheme ({scheme(newurl)})")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
