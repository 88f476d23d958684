"""The magics `%agent` and `%%agent`, and how they come into IPython: `%load_ext nbagent`.

In a kernel a magic at the beginning of a line is awaited, so that buttons and Stop work while it runs; in a function, a
loop or a terminal it waits.
"""

from __future__ import annotations

import asyncio
import atexit
import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import CancelledError as Cancelled
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from IPython.core.completer import SimpleCompletion, context_matcher
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.display import Code, DisplayHandle
from traitlets import Bool, Float, Unicode
from traitlets.config import SingletonConfigurable

from nbagent.core.errors import NbagentError, UsageError
from nbagent.core.text import safe
from nbagent.faces.magic.asking import LOOK_SECONDS, MAX_MB, STOPPED, Asking
from nbagent.faces.magic.block import Block
from nbagent.faces.magic.completion import completions
from nbagent.faces.magic.controls import Controls, Prompts, Widgets, has_widgets, hear
from nbagent.faces.magic.notebook import Watcher, cells_to_insert, put_below
from nbagent.faces.magic.portal import Portal
from nbagent.faces.magic.request import (
    TAKEN_BACK,
    Request,
    await_magics,
    hush_magics,
    keep_questions,
    mentioned,
    parse,
    usage,
)
from nbagent.faces.magic.sessions import Sessions, own_name
from nbagent.faces.magic.subcommands import NOTHING, Verbs

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext, SimpleMatcherResult
    from IPython.core.interactiveshell import InteractiveShell

    from nbagent.core.events import Answer

_MISSING = object()
T = TypeVar("T")


def _matcher(namespace: dict[str, Any]) -> Any:
    """What IPython's Tab key offers behind `%agent`; instead of Python's own words, where there is something."""

    @context_matcher()  # type: ignore[untyped-decorator]
    def match(context: CompletionContext) -> SimpleMatcherResult:
        names, before = [name for name in namespace if not name.startswith("_")], context.text_until_cursor
        found = [SimpleCompletion(text=each, type="%agent") for each in completions(before, names)]
        word = before.split()[-1] if found and not before[-1].isspace() else ""
        return {"completions": found, "matched_fragment": word, "suppress": bool(found)}

    return match


def _documented(method: Any) -> Any:
    """Give the magic the help that `%agent?` shows."""
    method.__doc__ += f"\n\n{usage()}"
    return method


class NbAgent(SingletonConfigurable):
    """What `%config NbAgent` sets; used when a session is begun."""

    model = Unicode("", help="provider:model, or replay:FILE; found by itself by default.").tag(config=True)
    trust = Unicode("", help="isolated (default), sandboxed, untrusted or trusted.").tag(config=True)
    engine = Unicode("", help="The engine by its name; the best that works here by default.").tag(config=True)
    approvals = Unicode("", help="What you are asked about: ask, auto-edit, allow-list or never-ask.").tag(config=True)
    max_mb = Float(MAX_MB, help="Megabytes that a variable may have which goes over unasked.").tag(config=True)
    widgets = Bool(None, allow_none=True, help="Whether buttons are shown; found out by default.").tag(config=True)

    def options(self) -> dict[str, Any]:
        """The options for a new session that are set."""
        given = {name: getattr(self, name) for name in ("model", "trust", "engine", "approvals")}
        return {name: value for name, value in given.items() if value}


class AgentError(Exception):
    """Something that a person did or that failed, shown as one sentence."""

    def _render_traceback_(self) -> list[str]:
        return [f"nbagent: {safe(str(self))}"]


class Reply:
    """What a question returns: its answer, which a notebook doesn't show a second time.

    Attributes:
        answer: The answer, with its text, cells, files and usage.
    """

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def __str__(self) -> str:
        """The answer for `print`: in a terminal nothing of it is obeyed."""
        return safe(self.answer.text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.answer, name)

    def _ipython_display_(self) -> None:
        """Show nothing: the block has it."""


@magics_class
class AgentMagics(Magics):
    """`%agent`, for one IPython."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._matcher = _matcher(shell.user_ns)
        shell.Completer.custom_matchers.append(self._matcher)
        self._ip, self._namespace = shell, shell.user_ns
        self._watcher = Watcher(shell)
        self._portal = Portal("nbagent-agent")
        self._sessions = Sessions(own_name())
        self._verbs = Verbs(self._sessions, beside="this kernel")
        self._running: Asking | None = None
        self._replaced: dict[str, Any] = {}
        self._note = ""
        atexit.register(self.close)

    def close(self) -> None:
        """Detach from the sessions; they end by themselves when nobody comes back."""
        atexit.unregister(self.close)
        self._watcher.close()
        self._ip.Completer.custom_matchers.remove(self._matcher)
        try:
            self._portal.begin(self._sessions.leave()).result(timeout=2)
        except Exception:  # at the end of the process nobody can be told
            return
        finally:
            self._portal.close()

    @_documented
    @no_var_expand
    @line_cell_magic
    def agent(self, line: str, cell: str | None = None) -> Any:
        """Ask the assistant, whose code runs in a sandbox."""
        try:
            _driven(self._steps(line, cell, is_awaited=False), _sleep).send(None)
        except StopIteration as ended:
            return ended.value

    @no_var_expand
    @line_cell_magic
    async def _agent_awaited(self, line: str, cell: str | None = None) -> Any:
        """Do as `agent` does, for lines that can be awaited."""
        return await _driven(self._steps(line, cell, is_awaited=True), self._rest)

    async def _rest(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await hear(getattr(self._ip, "kernel", None))

    # -- one call -------------------------------------------------------------------------------------------------

    def _steps(self, line: str, cell: str | None, *, is_awaited: bool) -> Generator[float, None, Any]:
        """Do what was typed; yields seconds to wait, and returns what the magic does."""
        try:
            request = parse(line, cell)
            match request.verb:
                case "":
                    return (yield from self._question(request, hears=is_awaited))
                case "fix":
                    return (yield from self._fix(request, hears=is_awaited))
                case "explain":
                    request.question = self._watcher.to_explain()
                    return (yield from self._question(request, hears=is_awaited))
                case "insert":
                    return (yield from self._insert(request, hears=is_awaited))
                case "undo":
                    return self._undo()
                case "stop" if self._running is not None:
                    return self._running.stop()
                case _:
                    return (yield from self._verb(request))
        except NbagentError as error:
            raise AgentError(str(error)) from None
        except (Cancelled, asyncio.CancelledError, KeyboardInterrupt):
            raise AgentError(STOPPED) from None

    def _verb(self, request: Request) -> Generator[float, None, None]:
        work = self._verbs.do(request, NbAgent.instance().options())
        print(safe((yield from _ended(self._portal.begin(work)))))

    def _undo(self) -> None:
        """Give variables that the last answer replaced their old values back; those that were new go."""
        if not self._replaced:
            raise UsageError("The last answer replaced no variable.", mend="See: %agent history")
        for name, value in self._replaced.items():
            if value is _MISSING:
                self._namespace.pop(name, None)
            else:
                self._namespace[name] = value
        print(f"As before the last answer: {', '.join(self._replaced)}. The sandbox keeps its own variables.")
        self._replaced, self._note = {}, TAKEN_BACK

    def _fix(self, request: Request, *, hears: bool) -> Generator[float, None, Any]:
        request.question = self._watcher.to_fix()
        reply = yield from self._question(request, hears=hears)
        if reply is not None:
            code, diff = self._watcher.proposed(reply.text)
            if code:
                _display(Code(diff, language="diff"))
                self._ip.set_next_input(code)
        return reply

    def _insert(self, request: Request, *, hears: bool) -> Generator[float, None, None]:
        session = yield from _ended(self._portal.begin(self._sessions.find(request.session)))
        if session is None:
            raise UsageError(NOTHING)
        found = cells_to_insert(session, request.argument)
        if hears and _allows_stdin(self._ip) and (yield from put_below(found)):
            return
        self._ip.set_next_input("\n\n".join(each["source"] for each in found))
        several = len(found) > 1
        below = f"{len(found)} cells are in one" if several else "The cell is"
        why = ": this front end takes one at a time" if several else ""
        print(f"{below} below, as text{why}. Which model made it and when is in: %agent export PATH")

    def _question(self, request: Request, *, hears: bool) -> Generator[float, None, Any]:
        if self._running is not None:
            raise UsageError("A question is running.", mend="Wait for it, or stop it by: %agent stop")
        config = NbAgent.instance()
        # A kernel of nbclient may have been started from a notebook, and so have the environment of one.
        is_attended = _allows_stdin(self._ip) or config.widgets is True
        wants_widgets = hears and (has_widgets() if config.widgets is None else config.widgets)
        handle, in_terminal = DisplayHandle(), not hasattr(self._ip, "kernel")

        def controls(answer: Callable[..., None], stop: Callable[[], None]) -> Controls | None:
            if wants_widgets and is_attended:
                return Widgets(answer, stop=stop, show=_display)
            return Prompts(answer) if is_attended else None

        named = mentioned(request.question)
        if request.max_mb is None:
            request.max_mb = config.max_mb
        request.give = [each for each in request.give if each in self._namespace or each not in named]
        asking = self._running = Asking(
            request,
            portal=self._portal,
            sessions=self._sessions,
            defaults=config.options(),
            note=self._note,
            attended=is_attended,
            draw=lambda block: None if in_terminal else _draw(handle, block),
            make_controls=controls,
            in_terminal=in_terminal,
        )
        try:
            yield from asking.steps(self._namespace)
        finally:
            self._running = None
            if asking.block.answer is not None:
                self._note = ""
                self._replaced = {name: self._namespace.get(name, _MISSING) for name in asking.found}
                self._namespace.update(asking.found)
        # With its cells and files, which the block has from events of their own.
        return Reply(asking.reply) if asking.reply is not None else None


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add the magics to an IPython; what `%load_ext nbagent` calls."""
    shell.register_magics(AgentMagics(shell))
    config = NbAgent.instance(parent=shell)
    shown: list[Any] = shell.configurables
    if config not in shown:
        shown.append(config)
    if keep_questions not in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.append(keep_questions)
    change = await_magics if hasattr(shell, "kernel") else hush_magics
    if change not in shell.input_transformers_post:
        shell.input_transformers_post.append(change)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take the magics away again."""
    found = shell.magics_manager.magics
    owner = getattr(found["line"].pop("agent", None), "__self__", None)
    for kind, name in (("cell", "agent"), ("line", "_agent_awaited"), ("cell", "_agent_awaited")):
        found[kind].pop(name, None)
    if keep_questions in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(keep_questions)
    for change in (await_magics, hush_magics):
        if change in shell.input_transformers_post:
            shell.input_transformers_post.remove(change)
    if isinstance(owner, AgentMagics):
        owner.close()


async def _driven(steps: Generator[float, None, T], sleep: Callable[[float], Awaitable[object]]) -> T:
    """Take steps to their end, and wait in between; who interrupts the waiting interrupts them."""
    interrupt: BaseException | None = None
    try:
        while True:
            seconds = next(steps) if interrupt is None else steps.throw(interrupt)
            interrupt = None
            try:
                await sleep(seconds)
            except (asyncio.CancelledError, KeyboardInterrupt) as pressed:
                interrupt = pressed
    except StopIteration as ended:
        found: T = ended.value
        return found


async def _sleep(seconds: float) -> None:
    """Keep the whole kernel waiting."""
    time.sleep(seconds)  # noqa: ASYNC251 - where nothing can be awaited


def _ended(work: Future[T]) -> Generator[float, None, T]:
    """Wait for work that is stopped if the waiting is; yields seconds to wait."""
    try:
        while not work.done():
            yield LOOK_SECONDS
        return work.result()
    finally:
        work.cancel()


def _display(thing: Any) -> Any:
    from IPython.display import display

    return display(thing, display_id=True)


def _draw(handle: DisplayHandle, block: Block) -> None:
    from nbagent.faces.magic.render import bundle

    data = bundle(block, prefix=f"nbagent-{handle.display_id[:8]}")
    if block.is_shown:
        handle.update(data, raw=True)
    else:
        block.is_shown = True
        handle.display(data, raw=True)


def _allows_stdin(shell: InteractiveShell) -> bool:
    """Whether a person can be asked at the front end; nbclient and papermill say that nobody can."""
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        import sys

        return sys.stdin is not None and sys.stdin.isatty()
    content = kernel.get_parent("shell").get("content", {})
    return bool(content.get("allow_stdin"))
