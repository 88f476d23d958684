"""Every option of a session, declared once: its type, default and description, and where it can be given.

From the fields of `Options` follow the settings and the meaning of keywords (`settings.py`), the flags of the command
line (`faces/cli/flags.py`), and JSON. The order of precedence:

    a keyword or a flag  >  a variable NBAGENT_…  >  ~/.config/nbagent/config.toml  >  the default here
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, get_type_hints

import msgspec

from nbagent.core.budget import Budget
from nbagent.core.errors import UsageError
from nbagent.core.limits import Limits
from nbagent.core.policy import LIMIT_NAMES, InstallPolicy, TrustLevel

Data = Iterable[str | Path] | Mapping[str, str | Path] | str | Path
"""Files and folders: one, several, or several with their names in the sandbox."""
FlagGroup = Literal["", "sandbox", "kernel", "background", "hosts", "approvals", "model", "agent"]
"""Groups of flags on the command line; an option of the group "" has no flag."""


@dataclass(frozen=True)
class Option:
    """What an option is, and where it can be given beside the keyword of its name.

    Attributes:
        description: A sentence for help texts.
        flags: Its flags on the command line and the name of their value, such as `--model -m NAME`; may be empty. A
            flag that begins with `--no-` turns the option off.
        group: The group of flags that it belongs to; commands take whole groups (`faces/cli/flags.py`).
        setting: Whether it can be kept in the settings.
        value: The value that a flag without an argument stands for.
        resumed: Whether it can be given when a session is resumed.
        secret: Whether its value is never shown.
    """

    description: str
    flags: str = ""
    _: KW_ONLY
    group: FlagGroup = ""
    setting: bool = True
    value: Any = None
    resumed: bool = False
    secret: bool = False

    @property
    def metavar(self) -> str:
        """The name of the flags' value in help texts; empty if they take none."""
        last = self.flags.rpartition(" ")[2]
        return "" if last.startswith("-") else last


_COUNT, _POSITIVE = msgspec.Meta(ge=0), msgspec.Meta(ge=1)
_MINUTES = msgspec.Meta(ge=0, le=525_600)


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a session. Sizes are in MiB."""

    # -- what its code sees and where it runs ---------------------------------------------------------------------
    data: Annotated[
        list[str] | dict[str, str],
        Option(
            "A file or folder that the code sees read-only at /tmp/data/NAME; a table gives names of your own.",
            "--data -d PATH",
            group="sandbox",
            setting=False,
        ),
    ] = []
    plain_names: Annotated[
        bool, Option("Whether code finds its data by plain names too, through links in its working folder.")
    ] = True
    engine: Annotated[
        str | None,
        Option(
            "The engine's name, see `nbagent doctor`; by default the best engine that works here.",
            "--engine -e NAME",
            group="sandbox",
        ),
    ] = None
    trust: Annotated[
        str, Option("isolated (default), sandboxed, untrusted or trusted.", "--trust LEVEL", group="sandbox")
    ] = "isolated"
    timeout: Annotated[float | None, Option("Seconds a cell may run.", "--timeout SECONDS", group="sandbox")] = None
    start_timeout: Annotated[
        float | None, Option("Seconds from a sandbox's launch to its kernel's first answer; 60 by default.")
    ] = None
    memory_mb: Annotated[int | None, Option("Memory of the sandbox in MB.", "--memory MB", group="sandbox")] = None
    cpus: Annotated[float | None, Option("Cores of the sandbox.")] = None
    accept: Annotated[
        list[str],
        Option(
            "A limit that may stay unenforced: memory, cpu, pids, commands or egress.",
            "--accept LIMIT",
            group="sandbox",
        ),
    ] = []
    docker_runtime: Annotated[
        str | None, Option("The Docker daemon's runtime for sandboxes, such as runsc or kata; its own by default.")
    ] = None
    kernel: Annotated[
        str | None,
        Option(
            "Use a kernel that runs already, by its connection file, instead of starting one.",
            "--kernel FILE",
            group="kernel",
            setting=False,
        ),
    ] = None
    image: Annotated[str | None, Option("The Docker image of the kernel.", "--image IMAGE", group="sandbox")] = None
    output_dir: Annotated[
        str | None,
        Option(
            "The folder for files that the code saves; by default nbagent-output here, in Python the session's own.",
            "--output-dir DIR",
            group="sandbox",
            resumed=True,
        ),
    ] = None
    client_data: Annotated[
        bool, Option("Whether kernels of JupyterLab and other clients see the folder that they are started for.")
    ] = True
    client_output: Annotated[
        bool, Option("Whether what is saved in such a kernel lands in a folder beside the notebook.")
    ] = True
    session_mb: Annotated[int | None, Option("MB that a session may keep on disk in all.")] = None
    result_mb: Annotated[int | None, Option("MB of the largest file that is collected as a result.")] = None
    limits: Annotated[Limits | None, Option("Limits in place of all those of the trust level.", setting=False)] = None
    security: Annotated[
        dict[str, Any],
        Option("Security options that replace the trust level's own, see `nbagent.core.policy.SECURITY_OPTIONS`."),
    ] = {}
    restore: Annotated[
        Literal["replay", "nothing"],
        Option(
            "After a kernel was lost: replay runs the cells that had succeeded again, nothing (default) does not.",
            "--restore WAY",
            group="sandbox",
            resumed=True,
        ),
    ] = "nothing"
    keep_minutes: Annotated[
        float, _MINUTES, Option("Minutes a session's kernel waits to be taken over once its process is gone.")
    ] = 10.0

    background: Annotated[
        bool,
        Option(
            "Run the session in a process of its own, which goes on when this command has ended.",
            "--background",
            group="background",
            setting=False,
        ),
    ] = False

    # -- what it reaches ------------------------------------------------------------------------------------------
    allow_hosts: Annotated[
        list[str] | None,
        Option("A host that the code may reach: HOST, HOST:PORT or *.DOMAIN.", "--allow-host HOST", group="hosts"),
    ] = None
    ask_hosts: Annotated[
        bool,
        Option(
            "Ask for each host that isn't listed; in Python, `HostAsked` is answered with `approve_host`.",
            "--ask-hosts",
            group="hosts",
            setting=False,
            resumed=True,
        ),
    ] = False
    upload_mb: Annotated[
        int | None, Option("MB that may go to hosts in all; 256 by default.", "--upload-mb MB", group="hosts")
    ] = None
    download_mb: Annotated[
        int | None, Option("MB that may come from hosts in all; 4096 by default.", "--download-mb MB", group="hosts")
    ] = None
    unknown_names: Annotated[
        int | None,
        Option(
            "The number of unpopular packages that the code may ask the index for; 10 by default.",
            "--unknown-names NUMBER",
            group="hosts",
        ),
    ] = None
    install_mb: Annotated[
        int | None,
        Option("MB of the packages that the code asks for, in all; 8192 by default.", "--install-mb MB", group="hosts"),
    ] = None
    install: Annotated[bool, Option("Whether packages may be installed.")] = True
    install_allow: Annotated[list[str], Option("The only distributions that may be installed; if empty, all may.")] = []
    install_deny: Annotated[list[str], Option("Distributions that are never installed.")] = []
    install_min_age_days: Annotated[
        float, _COUNT, Option("Days since its release after which a version may be installed.")
    ] = 3.0

    # -- who is asked ---------------------------------------------------------------------------------------------
    approvals: Annotated[
        str,
        Option(
            "What the model must ask you for: ask, auto-edit, allow-list or never-ask (default).",
            "--approvals MODE",
            group="approvals",
            resumed=True,
        ),
    ] = "never-ask"
    allow: Annotated[
        list[str],
        Option(
            "What the model needn't ask for, such as cell, shell:git * or install:polars.",
            "--allow RULE",
            group="approvals",
            resumed=True,
        ),
    ] = []
    unattended: Annotated[
        Literal["reject", "approve"],
        Option(
            "The answer if nobody can be asked: reject (default) or approve.",
            "--unattended ANSWER",
            group="approvals",
            resumed=True,
        ),
    ] = "reject"
    attended: Annotated[
        bool, Option("Whether somebody follows the events and answers `ApprovalAsked`.", setting=False, resumed=True)
    ] = False

    # -- how questions are answered -------------------------------------------------------------------------------
    model: Annotated[
        str | None,
        Option(
            "provider:model, or replay:FILE; found by itself by default.",
            "--model -m NAME",
            group="model",
            resumed=True,
        ),
    ] = None
    fallback: Annotated[
        list[str],
        Option("A model that is asked if the one before it fails.", "--fallback MODEL", group="agent", resumed=True),
    ] = []
    critic: Annotated[
        str,
        Option(
            "A model that criticises failed code before the next attempt; same: the model itself.",
            "--critic MODEL",
            group="agent",
            resumed=True,
        ),
    ] = ""
    replies: Annotated[
        Literal["tools", "structured"],
        Option(
            "Have the model reply with JSON objects, for a model that can't call tools.",
            "--structured",
            group="agent",
            value="structured",
            resumed=True,
        ),
    ] = "tools"
    max_attempts: Annotated[
        int, _POSITIVE, Option("How many replies in a row may have code that fails.", resumed=True)
    ] = 6
    max_iterations: Annotated[
        int, _COUNT, Option("How often an answer is sent back if no output shows its numbers.", resumed=True)
    ] = 2
    check: Annotated[
        bool | None,
        Option(
            "Have an answer's numbers computed a second time before you see it; by default for several files.",
            "--check --no-check",
            group="agent",
            resumed=True,
        ),
    ] = None
    scripts: Annotated[
        bool,
        Option("Whether the model is offered the tools for scripts and programs for every question.", resumed=True),
    ] = False
    budget: Annotated[
        Budget,
        Option(
            "What one question may use before you are asked: 0.50usd, 200k tokens, 10min, 20steps; several by commas. "
            "30 steps by default.",
            "--budget AMOUNTS",
            group="agent",
            resumed=True,
        ),
    ] = Budget()
    redact: Annotated[
        Literal["secrets", "pii", "none"],
        Option(
            "What is hidden from models: secrets (default), pii (personal data, too) or none.",
            "--redact WHAT",
            group="agent",
            resumed=True,
        ),
    ] = "secrets"
    mcp: Annotated[
        str | bool,
        Option(
            "A file of MCP servers whose tools the model gets; your own mcp.json by default.",
            "--mcp --no-mcp FILE",
            group="agent",
            resumed=True,
        ),
    ] = True
    mcp_constraints: Annotated[
        dict[str, Any],
        Option(
            "Bounds on the tools of MCP servers that the model is offered: max_latency_ms, max_tools, read_only, "
            "allow_servers, deny; and capabilities, those that each question needs.",
            resumed=True,
        ),
    ] = {}
    forge: Annotated[
        bool,
        Option(
            "Let the model make tools, and use tools that it made before.",
            "--forge --no-forge",
            group="agent",
            resumed=True,
        ),
    ] = False
    record: Annotated[
        str | None,
        Option("Write the model's replies to this file.", "--record FILE", group="agent", setting=False, resumed=True),
    ] = None

    # -- warm kernels ---------------------------------------------------------------------------------------------
    pool_size: Annotated[
        Annotated[int, _COUNT] | dict[TrustLevel, Annotated[int, _COUNT]],
        Option("How many kernels a pool keeps warm: for the trust level above, or a table by level."),
    ] = 0
    pool_minutes: Annotated[
        float, msgspec.Meta(gt=0, le=525_600), Option("Minutes after which a warm kernel is replaced.")
    ] = 30.0
    pool_imports: Annotated[list[str], Option("Modules that warm kernels import in advance.")] = msgspec.field(
        default_factory=lambda: ["polars", "matplotlib.pyplot"]
    )

    # -- what is kept and who watches -----------------------------------------------------------------------------
    state_dir: Annotated[str | None, Option("The folder of sessions, tools and audit heads.", resumed=True)] = None
    state_url: Annotated[
        str,
        Option("Where conversations are kept: a file by default, Postgres or Redis by URL.", resumed=True, secret=True),
    ] = ""
    mcp_token: Annotated[
        str, Option("The token of `nbagent mcp --http`; made up at each start by default.", secret=True)
    ] = ""
    audit_key_file: Annotated[str | None, Option("A secret that makes the audit log's hashes HMACs.", resumed=True)] = (
        None
    )
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        Option("The lowest level that is logged to standard error; nothing by default.", resumed=True),
    ] = None
    log_format: Annotated[Literal["console", "json"], Option("The form of the log.", resumed=True)] = "console"

    def __repr__(self) -> str:
        default = Options()
        changed = ((name, value) for name in fields() if (value := getattr(self, name)) != getattr(default, name))
        shown = (f"{name}={'…' if fields()[name][1].secret else repr(value)}" for name, value in changed)
        return f"Options({', '.join(shown)})"

    @property
    def security_options(self) -> dict[str, Any]:
        """All security options, including those that have an option of their own."""
        own = {option: value for option, name in OTHER_NAMES.items() if (value := getattr(self, name)) is not None}
        return {**self.security, **own}

    @property
    def install_policy(self) -> InstallPolicy:
        """The options about packages as a policy."""
        return InstallPolicy(
            enabled=self.install,
            allow=frozenset(self.install_allow),
            deny=frozenset(self.install_deny),
            min_age_days=self.install_min_age_days,
        )


OTHER_NAMES = {**LIMIT_NAMES, "allowed_hosts": "allow_hosts"}
"""Security options that are also options of their own, with these options' names."""


class Keywords(TypedDict, total=False):
    """The options as keywords of `Session`; for None, the person's settings hold.

    An option that is missing here is a setting of something else, such as a pool, and is refused as a keyword.
    """

    data: Data
    plain_names: bool
    engine: str | None
    trust: str | None
    timeout: float | None
    start_timeout: float | None
    memory_mb: int | None
    cpus: float | None
    accept: Sequence[str] | None
    docker_runtime: str | None
    kernel: str | Path | None
    image: str | None
    output_dir: str | Path | None
    session_mb: int | None
    result_mb: int | None
    limits: Limits | None
    security: Mapping[str, Any] | None
    restore: str | None
    keep_minutes: float | None
    background: bool
    allow_hosts: Sequence[str] | None
    ask_hosts: bool
    upload_mb: int | None
    download_mb: int | None
    unknown_names: int | None
    install_mb: int | None
    install: bool | None
    install_allow: Sequence[str] | None
    install_deny: Sequence[str] | None
    install_min_age_days: float | None
    approvals: str | None
    allow: Sequence[str] | None
    unattended: str | None
    attended: bool
    model: str | None
    fallback: Sequence[str] | None
    critic: str | None
    replies: str | None
    max_attempts: int | None
    max_iterations: int | None
    check: bool | None
    scripts: bool | None
    budget: str | Budget | None
    redact: str | None
    mcp: str | Path | bool | None
    mcp_constraints: Mapping[str, Any] | None
    forge: bool | None
    record: str | Path | None
    state_dir: str | Path | None
    state_url: str | None
    audit_key_file: str | Path | None
    log_level: str | None
    log_format: str | None


@functools.cache
def fields() -> dict[str, tuple[Any, Option]]:
    """The type and the `Option` of each option, by name."""
    hints = get_type_hints(Options, include_extras=True)
    return {
        name: (hint, next(each for each in hint.__metadata__ if isinstance(each, Option)))
        for name, hint in hints.items()
    }


def declared(name: str) -> Option:
    """The option of a name.

    Raises:
        UsageError: There is no such option; the message names the nearest.
    """
    known = fields()
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        mend = f"Did you mean {near[0]}?" if near else f"Use one of: {', '.join(known)}."
        raise UsageError(f"There is no option {name!r}.", mend=mend)
    return known[name][1]
