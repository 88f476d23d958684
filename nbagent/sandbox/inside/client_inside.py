"""What a cell of a kernel that another client started does and says, where a session does it for its own cells.

A missing module is installed and the cell goes on; a cell says that there is no network, or that a program of it was
killed for its memory; Plotly's figures are seen. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
from typing import Any

from file_watch_inside import METADATA_KEY  # type: ignore[import-not-found]
from magics_inside import ask, request_install, say  # type: ignore[import-not-found]

MAX_INSTALLS = 10
"""Installs for one cell."""
IMPORTS = r"(?m)^[^\S\n]*(?:from|import)\s.{1,300}$"
"""Lines of code from which the whole name of a module is read."""
MAY_LACK = (ImportError, AttributeError)
"""The errors that may say that a module is missing."""
ACCESSOR = "accessor requires "
"""How pandas says by an `AttributeError` that `frame.style` lacks a module."""
UNREACHED = (101, 113, -2, -3)
"""The numbers of errors where there is no network: no route, and no name server."""
FETCHES = re.compile(
    r"(?m)^[^\S\n]*!(?:.{0,1000}?[;&|])?[^\S\n]*"
    r"(?:curl|wget|git\b[^\n;&|]{0,1000}\b(?:clone|fetch|ls-remote|pull|push|submodule))(?![\w.-])"
)
"""Code that starts a program for what is elsewhere; all else that fails in git exits with the same number."""
FETCHED_NOTHING = (4, 6, 7, 128)
"""How such programs exit where there is no network: wget; curl, without a name server and without a route; git."""


def serve_client(shell: Any, controller: str, config: dict[str, Any]) -> None:
    """From now on, do and say it.

    Args:
        shell: IPython's.
        controller: The path of its socket, for installs.
        config: Whether there is a way out to hosts as `hosts`, the sandbox's `memory_mb`, how the kernel before was
            `lost`.
    """
    install_missing(shell, controller)
    if config.get("lost"):
        tell_loss(shell, controller, config["lost"])
    # Its own choice shows nothing in a JupyterLab that has no Plotly beside it: its part for JupyterLab is not there.
    os.environ.setdefault("PLOTLY_RENDERER", "plotly_mimetype+notebook")
    kills = 0
    programs = resource.getrusage(resource.RUSAGE_CHILDREN)

    def after_run(result: Any) -> None:
        nonlocal kills, programs
        error, before = getattr(result, "error_in_exec", None), (kills, programs)
        if (programs := resource.getrusage(resource.RUSAGE_CHILDREN)) != before[1]:  # one has ended
            with contextlib.suppress(OSError, ValueError):
                kills = int(ask({"kills": True}, controller).get("kills", kills))
        if kills > before[0]:
            say(
                f"a program of this cell was killed: the sandbox ran out of memory (limit {config['memory_mb']:,} MB). "
                "More is a setting of nbagent's: memory_mb."
            )
        code = shell.user_ns.get("_exit_code")
        fetched_nothing = type(code) is int and code in FETCHED_NOTHING and FETCHES.search(result.info.raw_cell or "")
        if not config["hosts"] and (fetched_nothing or is_unreached(error)):
            say(
                "this sandbox has no network. Which hosts it may reach is a setting of nbagent's: "
                'allow_hosts = ["example.org"]; it holds from the next start of the kernel.'
            )
        elif config["hosts"] and re.search(r"\b403\b", str(error)):
            say("the host is not in allow_hosts, a setting of nbagent's, or refused it itself.")

    shell.events.register("post_run_cell", after_run)


def tell_loss(shell: Any, controller: str, lost: str) -> None:
    """Have the first cell say how the kernel before was lost, unless the person was told so in the cell that did it."""

    def tell(_: Any) -> None:
        shell.events.unregister("pre_run_cell", tell)
        answer: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            answer = ask({"told": True}, controller)
        if not answer.get("told"):
            say(f"the kernel before this one {lost}")

    shell.events.register("pre_run_cell", tell)


def is_unreached(error: BaseException | None) -> bool:
    """Whether an error, or its cause, means that there is no network."""
    for _ in range(20):
        if error is None:
            return False
        reason = getattr(error, "reason", None)
        if isinstance(error, OSError) and error.errno in UNREACHED:
            return True
        error = (reason if isinstance(reason, BaseException) else None) or error.__cause__ or error.__context__
    return False


def install_missing(shell: Any, controller: str) -> None:
    """Have a module that a cell misses installed, and let the cell go on, or run it again (`magics_inside.go_on`)."""
    held: list[Any] = []
    run_once = shell.run_cell_async

    def hold(_: Any, kind: Any, error: Any, trace: Any, tb_offset: Any = None) -> None:
        # Nothing is asked of objects that code has made.
        if issubclass(kind, ImportError) or any(type(each) is str and ACCESSOR in each for each in error.args[:1]):
            held[:] = [(kind, error, trace)]
        else:
            shell.showtraceback((kind, error, trace), tb_offset=tb_offset, running_compiled_code=True)

    def install(code: str, left: int, *, counted: bool) -> bool:
        """Whether what was missing is there now; otherwise the error is shown, and why."""
        (kind, error, trace), *_ = held
        held.clear()
        why = ""
        try:
            # In a session's cell that is the session's to do.
            if left and METADATA_KEY not in (shell.kernel.get_parent().get("metadata") or {}):
                lines = "\n".join(re.findall(IMPORTS, code))[:4000]
                said, why = request_install({"missing": [kind.__name__, str(error)[:2000], lines]}, controller)
                if said:
                    # What the cell has shown comes again, if all of it runs again.
                    if not shell.nbagent_again(code, error, counted=counted):
                        shell.display_pub.clear_output(wait=True)
                    shell.display_pub.publish({"text/plain": f"nbagent: {said}"})
                    return True
        except KeyboardInterrupt:
            pass
        shell.showtraceback((kind, error, trace), running_compiled_code=True)
        if why:
            say(why)
        return False

    async def run(raw_cell: str, store_history: bool = False, *others: Any, **more: Any) -> Any:
        # IPython takes a handler away that failed, as one does at an error whose text can't be had.
        if not shell.custom_exceptions:
            shell.set_custom_exc(MAY_LACK, hold)
        for left in range(MAX_INSTALLS, -1, -1):
            held.clear()
            result = await run_once(raw_cell, store_history, *others, **more)
            if not held or not install(raw_cell, left, counted=store_history):
                break
        return result

    shell.set_custom_exc(MAY_LACK, hold)
    shell.run_cell_async = run
