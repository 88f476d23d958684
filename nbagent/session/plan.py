"""The plan of a session: its options, checked before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nbagent.agent.agent_options import AgentOptions
from nbagent.agent.providers.opener import ModelOpener
from nbagent.core import fileio, folders, settings
from nbagent.core.errors import UsageError
from nbagent.core.events import Event
from nbagent.core.options import Keywords, Options, declared
from nbagent.kernel.kernel import Restore
from nbagent.mcp.servers import ServerEntry
from nbagent.observability.audit import read_key
from nbagent.observability.telemetry import Telemetry
from nbagent.safety.approvals import Consent, Mode
from nbagent.sandbox.spec import SandboxSpec, check_asking
from nbagent.session.catalog import saved_spec, session_list
from nbagent.session.catalog.session_list import SessionInfo
from nbagent.session.checks import known_engine, mcp_servers, resolve_data


@dataclass
class Plan:
    """What a session is to be, and which earlier session it resumes.

    Attributes:
        root: The folder of the person's state.
        engine: The engine's name; None to have one chosen.
        spec: What the sandbox is to be.
        model: Opens the model, its fallbacks and its critic.
        restore: What becomes of a lost kernel's variables.
        servers: MCP servers whose tools the model is offered.
        output: Where results land; None for the session's folder.
        audit_key: The key of the audit log; None without one.
        keeps_mode: Whether an earlier session's approvals mode holds on.
        names_trust: Whether somebody chose the trust level, by an option or other than the default in the settings.
        keeps_redaction: Whether an earlier session's redaction holds on, if it was stricter.
        found: The session that is resumed; None for a new one.
    """

    id: str
    options: Options
    root: Path
    engine: str | None
    spec: SandboxSpec
    agent: AgentOptions
    model: ModelOpener
    restore: Restore
    servers: list[ServerEntry]
    output: Path | None
    audit_key: bytes | None
    keeps_mode: bool
    keeps_redaction: bool
    names_trust: bool
    found: SessionInfo | None = None

    @classmethod
    def of(cls, chosen: Options, keywords: Keywords, *, session: str | None) -> Plan:
        """The plan of a new session."""
        if chosen.background:
            raise UsageError("A Session lives as long as its own process.", mend="Use nbagent.host(…) instead.")
        id = session or folders.new_session_id()
        record = Path(chosen.record) if chosen.record else None
        plan = cls(
            id=id,
            options=chosen,
            root=folders.state_root(chosen.state_dir),
            # With `kernel`, the settings' engine doesn't count: that one is for sandboxes.
            engine=known_engine(
                keywords.get("engine") if chosen.kernel else chosen.engine,
                image=None if chosen.kernel else keywords.get("image"),
            ),
            agent=AgentOptions.of(chosen),
            model=ModelOpener(
                chosen.model,
                record=record,
                fallback=chosen.fallback,
                critic=chosen.critic,
                priced=chosen.budget.money is not None,
                structured=chosen.replies == "structured",
            ),
            restore=chosen.restore,
            spec=SandboxSpec.of(chosen, owner=id, data=resolve_data(chosen.data)),
            servers=mcp_servers(chosen.mcp),
            output=Path(chosen.output_dir).expanduser().absolute() if chosen.output_dir else None,
            audit_key=read_key(chosen.audit_key_file),
            keeps_mode=keywords.get("approvals") is None,
            keeps_redaction=keywords.get("redact") is None,
            names_trust=keywords.get("trust") is not None or chosen.trust != Options().trust,
        )
        if record:
            fileio.check_not_data(record, plan.sources)
        return plan

    @classmethod
    def resumed(cls, session: str, keywords: Keywords) -> Plan:
        """The plan of a session that is resumed."""
        if fixed := [name for name in keywords if not declared(name).resumed]:
            raise UsageError(f"The option {fixed[0]} of a session can't be changed any more.", mend="Start a new one.")
        chosen = settings.load(**keywords)
        found = session_list.info_of(folders.state_root(chosen.state_dir), session)
        plan = cls.of(settings.override(chosen, engine=found.engine), keywords, session=found.id)
        plan.spec, plan.found = saved_spec.read_spec(found), found
        plan.names_trust = True
        if plan.spec.kernel:
            plan.engine = None
        if chosen.ask_hosts:
            check_asking(plan.spec.trust)
        return plan

    @property
    def sources(self) -> list[Path]:
        """The paths of the data on the host."""
        return [mount.source for mount in self.spec.data]

    def consent(self, emit: Callable[[Event], object]) -> Consent:
        """What decides whether the model's tools may act, as the options say."""
        chosen = self.options
        return Consent(
            Mode.parse(chosen.approvals),
            emit,
            allow=chosen.allow,
            attended=chosen.attended,
            unattended=chosen.unattended,
        )

    def telemetry(self) -> Telemetry:
        """What counts, traces and logs the events, as the options say."""
        return Telemetry(self.id, level=self.options.log_level, format=self.options.log_format)
