"""What pip is told of indexes, certificates and proxies, as the variables by which uv takes the same.

Whoever has a mirror or certificates of their organisation has told pip, by `PIP_…` or in `pip.conf`. uv reads neither.
"""

from __future__ import annotations

import configparser
import contextlib
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import platformdirs

_PLACES = ("index", "index-url", "extra-index-url", "find-links", "no-index")
"""The keys of `uv.toml` by which a person has told uv itself where packages come from."""


def for_uv(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables for uv that follow from pip's settings; those that the person has set for uv itself are left out.

    Only `PIP_CERT`, if that is there, goes before the certificates of every program.
    As in pip, a variable goes before a file, and `[install]` before `[global]`.
    """
    said = _settings(environ)
    found = {
        "SSL_CLIENT_CERT": _expanded(said.get("client-cert", "")),
        "ALL_PROXY": said.get("proxy", ""),
        "UV_INSECURE_HOST": " ".join(said.get("trusted-host", "").split()),
    }
    if not _uv_knows_places(environ):
        found |= {
            "UV_DEFAULT_INDEX": said.get("index-url", ""),
            # To pip all indexes are one. To uv, a name that one of these has is theirs alone: nobody can put a newer
            # release of a private package on a public index, and have that installed.
            "UV_EXTRA_INDEX_URL": " ".join(filter(_is_there, said.get("extra-index-url", "").split())),
            "UV_FIND_LINKS": ",".join(map(_absolute, filter(_is_there, said.get("find-links", "").split()))),
            "UV_OFFLINE": "1" if said.get("no-index", "").lower() in ("1", "true", "yes", "on") else "",
        }
    set_already = {name.upper() for name in environ}
    if set_already & {"ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY"}:
        del found["ALL_PROXY"]
    own = {name: value for name, value in found.items() if value and name not in set_already}
    return own | _certificates(said.get("cert", ""), environ)


def _certificates(cert: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What pip takes for certificates; over those of every program, which Conda sets, only by its variable."""
    told = environ.get("SSL_CERT_FILE") or environ.get("SSL_CERT_DIR")
    # pip takes the last two as well.
    path = _expanded(cert or environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE") or "")
    if not path or (told and not (environ.get("PIP_CERT") and Path(path).exists())):
        return {}
    return {"SSL_CERT_DIR" if Path(path).is_dir() else "SSL_CERT_FILE": path}


def _settings(environ: Mapping[str, str]) -> dict[str, str]:
    """What pip's files and variables say, by the names of its long options."""
    merged: dict[str, dict[str, str]] = {"global": {}, "install": {}}
    for path in _files(environ):
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read(path)
        except (configparser.Error, OSError, UnicodeError):
            continue  # of which pip itself complains
        for section, values in merged.items():
            if parser.has_section(section):
                values.update({name.replace("_", "-"): value for name, value in parser.items(section)})
    named = {name[4:].lower().replace("_", "-"): value for name, value in environ.items() if name.startswith("PIP_")}
    return {**merged["global"], **merged["install"], **{name: value for name, value in named.items() if value}}


def _files(environ: Mapping[str, str]) -> list[Path]:
    """Where pip looks for its settings, the most important place last."""
    own = environ.get("PIP_CONFIG_FILE")
    if own == os.devnull:
        return []
    everybody = [Path(each) / "pip" for each in platformdirs.site_config_dir(multipath=True).split(os.pathsep)]
    folders = [
        *reversed(everybody),
        Path("/etc"),
        Path(_expanded("~/.pip")),
        platformdirs.user_config_path("pip"),
        Path(sys.prefix),
    ]
    return [*(each / "pip.conf" for each in folders), *([Path(own)] if own else [])]


def _uv_knows_places(environ: Mapping[str, str]) -> bool:
    """Whether the person has told uv itself, by a variable or a file, where packages come from."""
    if any(environ.get(f"UV_{name.upper().replace('-', '_')}") for name in (*_PLACES, "default-index")):
        return True
    return any(name in each for each in uv_tables(environ) for name in _PLACES)


def uv_tables(environ: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The tables of the files in which the person has told uv itself something: each whole, and its part on pip."""
    files = [platformdirs.user_config_path("uv") / "uv.toml", Path("/etc/uv/uv.toml")]
    for path in [Path(environ["UV_CONFIG_FILE"])] if environ.get("UV_CONFIG_FILE") else files:
        with contextlib.suppress(OSError, ValueError):  # of which uv itself complains
            settings = tomllib.loads(path.read_text(encoding="utf-8"))
            yield from (settings, *(each for each in [settings.get("pip")] if isinstance(each, dict)))


def _is_there(place: str) -> bool:
    """False for a folder that is gone: pip leaves it out with a warning, and uv would fail."""
    path = unquote(place.removeprefix("file://")) if place.startswith("file://") else _expanded(place)
    return "://" in path or Path(path).exists()


def _absolute(place: str) -> str:
    return place if "://" in place else str(Path(_expanded(place)).absolute())


def _expanded(path: str) -> str:
    return os.path.expanduser(path)  # noqa: PTH111 - `Path.expanduser` fails for a user without a home
