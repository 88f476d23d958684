"""Reads a person's list of MCP servers, the `mcp.json` that other MCP clients read too.

    {"mcpServers": {"time":   {"command": "uvx", "args": ["mcp-server-time"]},
                    "github": {"type": "http", "url": "https://example.org/mcp",
                               "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}}}}

Beside what other clients read, an entry may have `capabilities` (see `capabilities.py`; a list for all of its tools, or
a table of lists by tool), `timeoutSeconds` of a call, `startSeconds` and `disabled`. Other keys are other clients' own.

The file is the person's own, in their configuration folder, or one that they name. It is never looked for in the
current folder: its commands run on the host, and a project that somebody else wrote must not start programs there.
For the same reason a server's working folder and relative paths start at the file's folder, not at the current one.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

import platformdirs

from nbagent.core.errors import UsageError

Transport = Literal["stdio", "http", "sse"]
TRANSPORTS: dict[str, Transport] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
"""The names that clients give to the transports."""
MAX_BYTES = 1024 * 1024
ALL_TOOLS = "*"

_VARIABLE = re.compile(r"\$\{(?P<name>[^{}]*?)(?::-(?P<default>[^{}]*))?\}")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class ServerEntry:
    """A server's entry in the file.

    Attributes:
        name: The person's name for it.
        transport: How messages reach it: by a program's standard input and output, or by HTTP in one of two forms.
        command: The program, for `stdio`; a relative path is made absolute.
        env: Variables beside the few that every program gets. They may be secrets.
        url: Where it is, for `http` and `sse`.
        headers: Sent with each request. They may be secrets.
        capabilities: The capabilities of its tools, by tool; those under `*` are of all tools.
        seconds: How long a call may take; None for the client's own limit.
        start_seconds: How long its start may take; None for the client's own limit.
    """

    name: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: Path | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    capabilities: Mapping[str, frozenset[str]] = field(default_factory=dict)
    seconds: float | None = None
    start_seconds: float | None = None

    def capabilities_of(self, tool: str) -> frozenset[str]:
        """The capabilities that the person gave a tool."""
        return self.capabilities.get(tool, frozenset()) | self.capabilities.get(ALL_TOOLS, frozenset())


def config_file() -> Path:
    """The path of the person's own file, which may not be there."""
    return platformdirs.user_config_path("nbagent") / "mcp.json"


def load(path: Path | None = None, *, environment: Mapping[str, str] | None = None) -> list[ServerEntry]:
    """The servers of a file, in its order, without those that are `disabled`.

    Args:
        path: The file; None for the person's own, which need not be there.
        environment: The values of `${VAR}`; this process's environment by default.

    Raises:
        UsageError: The file can't be read or is wrong; the message names the place.
    """
    file = path or config_file()
    if path is None and not file.exists():
        return []
    entries = _Reader(file.absolute(), os.environ if environment is None else environment)
    return entries.servers(_parse(file, _text(file)))


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            if mode & stat.S_IWOTH:
                raise UsageError(
                    f"Anybody on this machine may write to {file}, whose commands would run as you.",
                    mend=f"Run: chmod o-w {file}",
                )
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"The MCP servers can't be read from {file}: {error.strerror}.") from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"{file} is larger than {MAX_BYTES // 1024} KB, which no list of MCP servers is.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 (byte {error.start}).") from error


def _parse(file: Path, text: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            names = [name for name, _ in pairs]
            double = next(name for name in names if names.count(name) > 1)
            raise UsageError(f"{file} has {double!r} twice in one table.")
        return table

    try:
        return json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise UsageError(f"{file}, line {error.lineno}, column {error.colno}: {error.msg}.") from error
    except RecursionError as error:
        raise UsageError(f"{file} is nested too deeply.") from error


class _Reader:
    """Reads entries; its errors name the place in the file."""

    def __init__(self, file: Path, environment: Mapping[str, str]) -> None:
        self._file = file
        self._environment = environment

    def servers(self, content: Any) -> list[ServerEntry]:
        if not isinstance(content, dict):
            self._wrong("", "must be a table with the key mcpServers")
        key = next((key for key in ("mcpServers", "servers") if key in content), "")
        if not key:
            self._wrong("", "has no key mcpServers")
        entries = content[key]
        if not isinstance(entries, dict):
            self._wrong(key, "must be a table of servers by name")
        return [
            self._server(f"{key}.{name}", name, entry)
            for name, entry in entries.items()
            if not (isinstance(entry, dict) and entry.get("disabled") is True)
        ]

    def _server(self, at: str, name: str, entry: Any) -> ServerEntry:
        if not isinstance(entry, dict):
            self._wrong(at, "must be a table")
        if not name.strip() or len(name) > 64 or not name.isprintable():
            self._wrong(at, "needs a name of 1 to 64 printable characters")
        transport = self._transport(at, entry)
        common: dict[str, Any] = {
            "capabilities": self._capabilities(f"{at}.capabilities", entry.get("capabilities", {})),
            "seconds": self._seconds(f"{at}.timeoutSeconds", entry.get("timeoutSeconds")),
            "start_seconds": self._seconds(f"{at}.startSeconds", entry.get("startSeconds")),
        }
        if transport != "stdio":
            url = self._string(f"{at}.url", entry.get("url"))
            if not re.match(r"https?://[^/\s]", url):
                self._wrong(f"{at}.url", "must begin with http:// or https://")
            headers = self._strings(f"{at}.headers", entry.get("headers", {}))
            return ServerEntry(name=name, transport=transport, url=url, headers=headers, **common)
        args = entry.get("args", [])
        if not isinstance(args, list):
            self._wrong(f"{at}.args", "must be a list of strings")
        return ServerEntry(
            name=name,
            transport=transport,
            command=self._command(f"{at}.command", entry.get("command")),
            args=tuple(self._string(f"{at}.args[{number}]", each) for number, each in enumerate(args)),
            env=self._strings(f"{at}.env", entry.get("env") or {}),
            cwd=self._path(self._string(f"{at}.cwd", entry.get("cwd") or ".")),
            **common,
        )

    def _transport(self, at: str, entry: dict[str, Any]) -> Transport:
        if ("command" in entry) == ("url" in entry):
            self._wrong(at, "needs either a command or a url")
        named = entry.get("type", "stdio" if "command" in entry else "http")
        if not isinstance(named, str) or named not in TRANSPORTS:
            self._wrong(f"{at}.type", "must be stdio, http or sse")
        transport = TRANSPORTS[named]
        if (transport == "stdio") != ("command" in entry):
            self._wrong(f"{at}.type", f"is {named}, which goes with a {'command' if transport == 'stdio' else 'url'}")
        return transport

    def _command(self, at: str, value: Any) -> str:
        command = self._string(at, value)
        if not command.strip():
            self._wrong(at, "is empty")
        return str(self._path(command)) if "/" in command else command

    def _path(self, text: str) -> Path:
        return self._file.parent / Path(text).expanduser()

    def _capabilities(self, at: str, value: Any) -> dict[str, frozenset[str]]:
        """Read capabilities: a list is for all tools of the server, a table has a list for each."""
        table = {ALL_TOOLS: value} if isinstance(value, list) else value
        if not isinstance(table, dict):
            self._wrong(at, "must be a list, or a table of lists by tool")
        found: dict[str, frozenset[str]] = {}
        for tool, names in table.items():
            if not isinstance(names, list) or not all(isinstance(each, str) and ":" in each for each in names):
                self._wrong(f"{at}.{tool}", "must be a list of capabilities such as file:read")
            found[tool] = frozenset(each.strip().lower() for each in names)
        return found

    def _seconds(self, at: str, value: Any) -> float | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86400:
            self._wrong(at, "must be a number of seconds above 0")
        return float(value)

    def _strings(self, at: str, value: Any) -> dict[str, str]:
        if not isinstance(value, dict):
            self._wrong(at, "must be a table of strings")
        return {name: self._string(f"{at}.{name}", each) for name, each in value.items()}

    def _string(self, at: str, value: Any) -> str:
        """Read a string with its variables expanded, or a number as text."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self._wrong(at, "must be a string")
        text = str(value)
        if "\0" in text:
            self._wrong(at, "has a NUL character")
        return _VARIABLE.sub(lambda found: self._variable(at, found), text)

    def _variable(self, at: str, found: re.Match[str]) -> str:
        name = found["name"].removeprefix("env:")  # as VS Code writes it
        if not _NAME.fullmatch(name):
            self._wrong(at, f"uses {found[0]}, which only other programs know", mend="Use a variable: ${NAME}.")
        value = self._environment.get(name)
        if value or (value is not None and found["default"] is None):
            return value
        if found["default"] is not None:
            return found["default"]
        self._wrong(at, f"needs the variable {name}, which is not set", mend=f"Set it, or write ${{{name}:-DEFAULT}}.")

    def _wrong(self, at: str, what: str, *, mend: str = "") -> NoReturn:
        place = f"{self._file}: {at} {what}" if at else f"{self._file} {what}"
        raise UsageError(f"{place}.", mend=mend)
