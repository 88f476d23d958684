"""Trust levels and the install policy: what a sandbox permits, as plain values.

The engines enforce these values, and refuse what they can't enforce.
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nbagent.core.errors import UsageError
from nbagent.core.limits import Limits

MIB = 1024 * 1024
NAMES_MEND = "Allow more with --unknown-names NUMBER, or list what it needs in the setting install_allow."
"""What to do when code asks the package index for more names than `Limits.unknown_names`."""
SIZE_MEND = "Allow more with --install-mb MB (in Python: install_mb), or install it yourself with Session.install."
"""What to do when the packages that code asks for have more bytes than `Limits.install_mb`."""


class TrustLevel(enum.StrEnum):
    """How much the code in a sandbox is trusted, from the least strict to the strictest."""

    TRUSTED = "trusted"
    """For code that you wrote: network, writable root."""
    ISOLATED = "isolated"
    """For data analysis: programs, but no network. The default."""
    SANDBOXED = "sandboxed"
    """For agents that face users: no programs, network by allow-list only."""
    UNTRUSTED = "untrusted"
    """For code of unknown origin: no programs, no network, little memory and CPU."""

    @classmethod
    def parse(cls, name: str) -> TrustLevel:
        """The level of that name.

        Raises:
            UsageError: There is no such level; the message lists all.
        """
        try:
            return cls(name.strip().lower())
        except ValueError:
            raise UsageError(
                f"There is no trust level {name!r}.", mend=f"Use one of: {', '.join(level.value for level in cls)}."
            ) from None


class Network(enum.StrEnum):
    """Which network a sandbox has."""

    NONE = "none"
    """Its own loopback interface only."""
    LISTED = "allow-list"
    """The same, and a proxy on the host that opens connections to allowed hosts."""
    FULL = "full"
    """The host's network."""


@dataclass(frozen=True, kw_only=True)
class Trust:
    """What a sandbox permits. The engines enforce each field, or refuse to start.

    Attributes:
        level: The trust level from which the other fields come.
        network_enabled: Whether any host can be reached.
        allowed_hosts: With a network, the only hosts that can be reached, as `HOST`, `HOST:PORT` or `*.DOMAIN`; None
            for all hosts, at the level `trusted` only.
        allow_shell: Whether there is a shell: `!command`, `%%bash`, `nbagent shell`.
        allow_subprocess: Whether programs may be executed and processes started; threads are always allowed.
        allow_network_tools: Whether code may make Internet sockets, even to itself.
        read_only_root: Whether only the scratch folders can be written.
        log_all_commands: Whether the audit log has each program that is executed, beside the cells.
        install_listed_only: Whether only packages that a person listed are installed.
        limits: Bounds on memory, CPU and more.
    """

    level: TrustLevel
    network_enabled: bool
    allowed_hosts: tuple[str, ...] | None = ()
    allow_shell: bool
    allow_subprocess: bool
    allow_network_tools: bool
    read_only_root: bool
    log_all_commands: bool = False
    install_listed_only: bool = False
    limits: Limits

    def __post_init__(self) -> None:
        if self.allow_shell and not self.allow_subprocess:
            raise UsageError(
                "A shell is a subprocess: allow_shell needs allow_subprocess.", mend="Allow both, or neither."
            )
        if self.network is Network.FULL and self.level is not TrustLevel.TRUSTED:
            raise UsageError(
                f"The level {self.level} has no network without a list of hosts.",
                mend="Name them in allowed_hosts (--allow-host), or use --trust trusted.",
            )

    @property
    def hides_shells(self) -> bool:
        """Whether programs may be executed, but not shells."""
        return self.allow_subprocess and not self.allow_shell

    @property
    def network(self) -> Network:
        """Which network there is."""
        if not self.network_enabled:
            return Network.NONE
        return Network.FULL if self.allowed_hosts is None else Network.LISTED

    def reachable_hosts(self, *, ask_hosts: bool) -> tuple[str, ...] | None:
        """The hosts that the code may reach, in words for a model: rules, or None for the whole network.

        Args:
            ask_hosts: Whether somebody is asked about a host that isn't listed.
        """
        if self.network is Network.LISTED and ask_hosts:
            return (*(self.allowed_hosts or ()), "what a person allows when the code asks for it")
        return self.allowed_hosts if self.network_enabled else ()

    def options(self) -> dict[str, Any]:
        """All security options by name, see `SECURITY_OPTIONS`."""
        bounds = {name: getattr(self.limits, field) for name, field in LIMIT_NAMES.items()}
        switches = {name: getattr(self, name) for name in SECURITY_OPTIONS if name not in LIMIT_NAMES}
        hosts = None if self.allowed_hosts is None else list(self.allowed_hosts)
        return {**switches, **bounds, "allowed_hosts": hosts}

    def narrow(self, policy: InstallPolicy) -> InstallPolicy:
        """An install policy with this level's restrictions: at the stricter levels, only listed packages.

        The names that code asks for leave the machine, as requests to the index. Code with the full network is not
        restricted: it could send anything anyway.
        """
        unknown = None if self.network is Network.FULL else self.limits.unknown_names
        return replace(
            policy,
            listed_only=policy.listed_only or self.install_listed_only,
            unknown_names=unknown,
            install_mb=self.limits.install_mb,
        )


_ISOLATED = Trust(
    level=TrustLevel.ISOLATED,
    network_enabled=False,
    allow_shell=True,
    allow_subprocess=True,
    allow_network_tools=True,
    read_only_root=True,
    limits=Limits(),
)
_SANDBOXED = replace(
    _ISOLATED,
    level=TrustLevel.SANDBOXED,
    network_enabled=True,
    allow_shell=False,
    allow_subprocess=False,
    log_all_commands=True,
    install_listed_only=True,
    limits=Limits(memory_mb=512, tmp_mb=256, pids=128, session_mb=1024),
)
TRUST_PRESETS: dict[TrustLevel, Trust] = {
    TrustLevel.TRUSTED: replace(
        _ISOLATED, level=TrustLevel.TRUSTED, network_enabled=True, allowed_hosts=None, read_only_root=False
    ),
    TrustLevel.ISOLATED: _ISOLATED,
    TrustLevel.SANDBOXED: _SANDBOXED,
    TrustLevel.UNTRUSTED: replace(
        _SANDBOXED,
        level=TrustLevel.UNTRUSTED,
        network_enabled=False,
        allow_network_tools=False,
        limits=Limits(memory_mb=256, tmp_mb=128, pids=64, cpus=0.5, session_mb=512),
    ),
}
"""What each level permits by default."""

LIMIT_NAMES = {
    "memory_limit_mb": "memory_mb", "cpu_limit": "cpus", "timeout_seconds": "timeout", "upload_mb": "upload_mb",
    "download_mb": "download_mb", "unknown_names": "unknown_names", "install_mb": "install_mb",
}  # fmt: skip
"""Security options that are limits, with their names in `Limits`."""
SECURITY_OPTIONS = (
    "network_enabled", "allowed_hosts", "allow_shell", "allow_subprocess", "allow_network_tools", "memory_limit_mb",
    "cpu_limit", "timeout_seconds", "read_only_root", "log_all_commands", "upload_mb", "download_mb", "unknown_names",
    "install_mb",
)  # fmt: skip
"""The names of all security options."""


def asking(security: Mapping[str, Any]) -> dict[str, Any]:
    """Security options for a sandbox that reaches listed hosts, and further ones that a person allows when asked."""
    return {"allowed_hosts": [], **security, "network_enabled": True, "allow_network_tools": True}


def trust_for(
    level: TrustLevel, *, data_bytes: int = 0, security: Mapping[str, Any] | None = None, **overrides: Any
) -> Trust:
    """What a level permits, with memory for the data and with a person's overrides.

    Args:
        level: The trust level.
        data_bytes: The size of all data. At `isolated` the memory limit grows to three times that, at most half of the
            machine's memory, since a table is larger in memory than in a file.
        security: Security options by name (see `SECURITY_OPTIONS`) that replace the level's own. `allowed_hosts`
            enables the network.
        **overrides: Fields of `Limits`; None is ignored.

    Raises:
        UsageError: An option is unknown, of the wrong kind, or contradicts another one.
    """
    trust = TRUST_PRESETS[level]
    limits = trust.limits
    if level is TrustLevel.ISOLATED and data_bytes:
        half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 // MIB
        wanted = 3 * data_bytes // MIB + 512
        limits = replace(limits, memory_mb=max(limits.memory_mb, min(wanted, half)))
    switches, bounds = _options(security or {})
    bounds |= {name: value for name, value in overrides.items() if value is not None}
    return replace(trust, limits=replace(limits, **bounds), **switches)


def _options(security: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Security options as fields of `Trust` and of `Limits`."""
    switches: dict[str, Any] = {}
    bounds: dict[str, Any] = {}
    for name, value in security.items():
        if name not in SECURITY_OPTIONS:
            raise UsageError(
                f"There is no security option {name!r}.", mend=f"Use one of: {', '.join(SECURITY_OPTIONS)}."
            )
        if name in LIMIT_NAMES:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UsageError(f"The security option {name} is a number, not {value!r}.")
            bounds[LIMIT_NAMES[name]] = value
        elif name == "allowed_hosts":
            switches[name] = tuple(map(allowed_host, _list(value)))
        elif isinstance(value, bool):
            switches[name] = value
        else:
            raise UsageError(f"The security option {name} is true or false, not {value!r}.")
    if switches.get("allowed_hosts"):
        switches.setdefault("network_enabled", True)
        switches.setdefault("allow_network_tools", True)
    if switches.get("allow_subprocess") is False:
        # Without programs there is no shell either.
        switches.setdefault("allow_shell", False)
    return switches, bounds


def _list(value: Any) -> list[str]:
    if not isinstance(value, list | tuple | set | frozenset) or not all(isinstance(each, str) for each in value):
        raise UsageError("The security option allowed_hosts is a list of names.")
    return list(value)


HOST_LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
"""One part of a host's name, as a pattern."""
_HOST = re.compile(rf"(?P<host>(?:\*\.)?{HOST_LABEL}(?:\.{HOST_LABEL})*)(?::(?P<port>[0-9]{{1,5}}))?")


def allowed_host(entry: str) -> str:
    """Check an entry of an allow-list of hosts (`HOST`, `HOST:PORT` or `*.DOMAIN`); returned in lower case.

    Raises:
        UsageError: It has another form. Addresses can't be allowed.
    """
    text = entry.strip().lower()
    found = _HOST.fullmatch(text)
    digits = found is not None and found["host"].rsplit(".", 1)[-1].isdigit()
    if found is None or digits or len(found["host"]) > 253 or not 0 < int(found["port"] or 1) < 65536:
        raise UsageError(
            f"{entry[:100]!r} can't be an allowed host.", mend="Write HOST, HOST:PORT or *.DOMAIN, without a scheme."
        )
    return text


@dataclass(frozen=True, kw_only=True)
class InstallPolicy:
    """Which packages the host's installer may add to a session.

    Attributes:
        enabled: False refuses every install.
        allow: If not empty, only these distributions (and what they depend on).
        deny: Never these, not even as a dependency.
        min_age_days: Days that a release must be old: most hostile releases are found within days.
        listed_only: Whether an empty `allow` allows nothing instead of everything.
        unknown_names: Unpopular packages that the code of one sandbox may ask the index for, see
            `packages/allowance.py`; None for any number.
        install_mb: MiB of the packages that code asks for, unpacked; None for any amount.
    """

    enabled: bool = True
    allow: frozenset[str] = field(default_factory=frozenset)
    deny: frozenset[str] = field(default_factory=frozenset)
    min_age_days: float = 3.0
    listed_only: bool = False
    unknown_names: int | None = 10
    install_mb: int | None = 8192
