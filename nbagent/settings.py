"""A person's own settings: the environment (`NBAGENT_…`), and a file in their configuration folder.

    ~/.config/nbagent/config.toml      engine = "docker"
                                       memory_mb = 4096
                                       install_deny = ["leftpad"]

The environment wins over the file, an option on the command line or in Python over both. Nothing is read from the
current folder: a project that somebody else wrote must not weaken the sandbox that it will run in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from nbagent.errors import UsageError
from nbagent.policy import InstallPolicy, TrustLevel


def config_file() -> Path:
    """Where the settings file is looked for."""
    return platformdirs.user_config_path("nbagent") / "config.toml"


class Settings(BaseSettings):
    """What can be set once and for all. Each has an environment variable, `NBAGENT_` and its name in capitals."""

    # A setting that was misspelt in the file is told: it may be one that was to make the sandbox stricter.
    model_config = SettingsConfigDict(env_prefix="NBAGENT_", extra="forbid")

    model: str | None = Field(default=None, description="The model, as provider:model.")
    engine: str | None = Field(default=None, description="The engine; the best that works here by default.")
    trust: str = Field(default="isolated", description="The trust level.")
    image: str | None = Field(default=None, description="The kernel image of the docker engine.")
    docker_runtime: str | None = Field(
        default=None,
        description="The Docker daemon's runtime for sandboxes, such as runsc or kata; its own by default.",
    )
    timeout: float | None = Field(default=None, description="Seconds a cell may run.")
    memory_mb: int | None = Field(default=None, description="Memory of a sandbox in MiB.")
    cpus: float | None = Field(default=None, description="Cores of a sandbox.")
    session_mb: int | None = Field(default=None, description="What a session may keep on disk in all, in MiB.")
    result_mb: int | None = Field(default=None, description="The largest file that is collected as a result, in MiB.")
    output_dir: Path | None = Field(default=None, description="Where results land; in the session's folder by default.")
    security: dict[str, Any] = Field(default_factory=dict, description="Security options that replace the level's own.")
    keep_minutes: float = Field(
        default=10.0,
        ge=0,
        le=525_600,
        description="Minutes a session's kernel waits to be taken over once its process is gone.",
    )
    pool_size: Annotated[int, Field(ge=0)] | dict[TrustLevel, Annotated[int, Field(ge=0)]] = Field(
        default=0, description="Kernels that a pool keeps warm: for the trust level above, or a table for levels."
    )
    pool_minutes: float = Field(
        default=30.0, gt=0, le=525_600, description="Minutes after which a warm kernel is replaced."
    )
    pool_imports: list[str] = Field(
        default_factory=lambda: ["polars", "matplotlib.pyplot"], description="Modules that warm kernels have imported."
    )
    restore: Literal["replay", "nothing"] = Field(
        default="nothing", description="What is done for a kernel that was lost: replay runs its cells again."
    )
    fallback: list[str] = Field(default_factory=list, description="Models that are asked where the first one fails.")
    critic: str | None = Field(
        default=None, description="A model that criticises code that failed before it is tried again, or same."
    )
    replies: Literal["tools", "structured"] = Field(
        default="tools", description="How the model has code run: by calls of tools, or by objects in its text."
    )
    max_attempts: int = Field(default=6, ge=1, description="Replies in a row whose code may fail.")
    max_iterations: int = Field(
        default=1, ge=0, description="How often an answer is sent back whose numbers stand in no output."
    )
    budget: str = Field(
        default="", description="What one question may use, such as 0.50usd, 200k tokens, 10min; 30steps by default."
    )
    redact: Literal["secrets", "pii", "none"] = Field(
        default="secrets", description="What is hidden in what goes to models; pii: also what names a person."
    )
    forge: bool = Field(default=False, description="Whether the model may make tools, and use those of the library.")
    approvals: str = Field(
        default="never-ask", description="What a person is asked about: ask, auto-edit, allow-list or never-ask."
    )
    approvals_allow: list[str] = Field(
        default_factory=list, description="Rules of what nobody is asked about: KIND:PATTERN, such as install:polars."
    )
    unattended: Literal["reject", "approve"] = Field(
        default="reject", description="What becomes of such a question where nobody is there to answer."
    )
    mcp_config: Path | None = Field(
        default=None, description="The MCP servers' file; mcp.json in the folder of the settings by default."
    )
    mcp_token: SecretStr = Field(
        default=SecretStr(""),
        description="What clients of nbagent mcp --http must send; made anew each time by default.",
    )
    accept: list[str] = Field(default_factory=list, description="Limits that may stay unenforced.")
    install: bool = Field(default=True, description="Whether packages may be installed.")
    install_allow: list[str] = Field(default_factory=list, description="If not empty, only these distributions.")
    install_deny: list[str] = Field(default_factory=list, description="Never these distributions.")
    install_min_age_days: float = Field(default=3.0, description="Days that a release must be old.")
    state_dir: Path | None = Field(default=None, description="Where sessions are kept.")
    state_url: SecretStr = Field(
        default=SecretStr(""), description="Where conversations are kept: a file by default, Postgres or Redis by URL."
    )
    audit_key_file: Path | None = Field(default=None, description="A secret that makes the audit log's hashes HMACs.")
    log_level: Literal["debug", "info", "warning", "error"] | None = Field(
        default=None, description="What is logged to standard error; nothing by default."
    )
    log_format: Literal["console", "json"] = Field(default="console", description="How it is logged.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the base's
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, config_file())

    @property
    def security_options(self) -> dict[str, Any]:
        """All security options that are set, those with a setting of their own included."""
        own = {"timeout_seconds": self.timeout, "memory_limit_mb": self.memory_mb, "cpu_limit": self.cpus}
        return {**self.security, **{name: value for name, value in own.items() if value is not None}}

    @property
    def install_policy(self) -> InstallPolicy:
        """What may be installed."""
        return InstallPolicy(
            enabled=self.install,
            allow=frozenset(self.install_allow),
            deny=frozenset(self.install_deny),
            min_age_days=self.install_min_age_days,
        )


def load() -> Settings:
    """This person's settings.

    Raises:
        UsageError: One is wrong; the message names it.
    """
    try:
        return Settings()
    except ValidationError as error:
        # Of a setting that may be one thing or another, what is wrong with the part that comes closest.
        first = max(error.errors(), key=lambda each: len(each["loc"]))
        name = str(first["loc"][0])
        raise UsageError(
            f"The setting {name} is wrong: {first['msg']}.", mend=f"See NBAGENT_{name.upper()} and {config_file()}."
        ) from error
    except (OSError, ValueError) as error:
        raise UsageError(
            f"The settings can't be read: {error}.", mend=f"They are in {config_file()} and in variables NBAGENT_…."
        ) from error
