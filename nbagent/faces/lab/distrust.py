"""Cleans what sandboxed kernels say and save before any page of the server gets it.

Code in a sandbox must reach a person's page by neither what it says nor what it saves: with the rights of the page it
could start a kernel that nothing isolates. So it is made harmless here, on the way to every page and every export of
the server, whichever program draws it. A person's setting passes on all of it as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from jupyter_client.kernelspec import NoSuchKernel
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection
from jupyter_server.utils import ensure_async
from nbformat import from_dict
from tornado import web
from tornado.websocket import WebSocketClosedError

from nbagent.core.errors import contained
from nbagent.core.folders import RESULTS
from nbagent.core.policy import MIB
from nbagent.faces.lab.kernel_messages import PASSED, passed_on
from nbagent.safety.sanitize import clean_notebook, clean_shown
from nbagent.sandbox.inside.message_sizes_inside import MAX_WEIGHT, weight

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

CONNECTION = "kernel_websocket_connection_class"
SANDBOXED = "nbagent-"
"""How kernelspecs and provisioners of sandboxed kernels are called."""
QUICK_BYTES = 8 * 1024
"""The largest message that is made harmless at once; others wait for larger ones, which are in a thread."""
MAX_WAITING = 16 * MIB
"""Bytes of messages that wait, after which no more is read of the kernel."""
MAX_NOTEBOOK = 100 * MIB
"""Bytes of a notebook that sandboxed code has made and a server reads."""
NOT_PASSED = "A message of a sandboxed kernel is not passed on"
PLUGIN = "@nbagent/panel:notebook"


def guard(server: ServerApp, settings: dict[str, Any]) -> None:
    """Make harmless what sandboxed kernels say and save, on its way to the pages of a server.

    Of the settings, those of its web application, the class of connections is replaced.
    """
    setting = Setting(server)
    if issubclass(settings[CONNECTION], ZMQChannelsWebsocketConnection):  # else its kernels are on another machine
        settings[CONNECTION] = type("HarmlessConnection", (Harmless, settings[CONNECTION]), {"setting": setting})
    _guard_contents(server, setting)
    _guard_kernels(server.kernel_manager)


class Setting:
    """Whether the person trusts what sandboxed kernels show, as the settings of JupyterLab or Notebook say now."""

    def __init__(self, server: ServerApp) -> None:
        self._server = server
        self._seen: dict[Path, tuple[int | None, bool]] = {}

    def __bool__(self) -> bool:
        apps = self._server.extension_manager.extension_apps.values()
        return any(self._of(app) for each in apps for app in each if getattr(app, "user_settings_dir", ""))

    def _of(self, app: Any) -> bool:
        plugin = PLUGIN.replace(":", "/")
        file = Path(app.user_settings_dir) / f"{plugin}.jupyterlab-settings"
        try:
            changed = file.stat().st_mtime_ns
        except OSError:
            changed = None
        if file not in self._seen or self._seen[file][0] != changed:
            self._seen[file] = changed, _read(app)
        return self._seen[file][1]


def _read(app: Any) -> bool:
    from jupyterlab_server.settings_utils import get_settings

    with contextlib.suppress(web.HTTPError):  # the panel isn't installed, or turned off
        places = app.app_settings_dir, app.schemas_dir, app.user_settings_dir
        more = [*app.extra_labextensions_path, *app.labextensions_path]
        found, _ = get_settings(*places, schema_name=PLUGIN, labextensions_path=more)
        default = found["schema"]["properties"]["trustSandboxes"].get("default", False)
        return found["settings"].get("trustSandboxes", default) is True
    return False


class Harmless(ZMQChannelsWebsocketConnection):
    """The connection of one page to one kernel."""

    setting: Setting

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._waiting: deque[tuple[Any, list[bytes]]] = deque()
        self._bytes = 0
        self._passing: asyncio.Task[None] | None = None
        self._is_gone = False
        stanza = self.kernel_manager.provisioner.kernel_spec.metadata.get("kernel_provisioner") or {}
        self._is_sandboxed = str(stanza.get("provisioner_name", "")).startswith(SANDBOXED)

    def handle_outgoing_message(self, stream: Any, outgoing_msg: list[Any]) -> None:
        """Pass on a message of the kernel to the page."""
        if not self._is_sandboxed or self.setting:
            super().handle_outgoing_message(stream, outgoing_msg)
            return
        message = [bytes(each) for each in outgoing_msg]
        size = _size(message)
        if self._passing is None and size <= QUICK_BYTES:
            self._pass(stream, self._harmless(stream, message))
            return
        self._waiting.append((stream, message))
        self._bytes += size
        if self._bytes > MAX_WAITING:
            for each in self.channels.values():
                each.stop_on_recv()
        self._passing = self._passing or asyncio.ensure_future(self._pass_all())

    def disconnect(self) -> Any:
        """Note that the page is gone, and that others read what the kernel says."""
        self._is_gone = True
        return super().disconnect()  # type: ignore[no-untyped-call]

    async def _pass_all(self) -> None:
        try:
            while self._waiting and not self._is_gone:
                stream, message = self._waiting.popleft()
                harmless = await asyncio.to_thread(self._harmless, stream, message)
                was_full = self._bytes > MAX_WAITING
                self._bytes -= _size(message)
                if was_full and self._bytes <= MAX_WAITING and not self._is_gone:
                    for each in self.channels.values():
                        each.on_recv_stream(self.handle_outgoing_message)
                with contained(NOT_PASSED), contextlib.suppress(WebSocketClosedError):
                    self._pass(stream, harmless)
        finally:
            self._passing = None

    def _pass(self, stream: Any, message: list[bytes] | None) -> None:
        if message is not None:
            super().handle_outgoing_message(stream, message)

    def _harmless(self, stream: Any, message: list[bytes]) -> list[bytes] | None:
        """The message signed anew, since not all pages are sent the parts as they are."""
        try:
            identities, parts = self.session.feed_identities(message)
        except ValueError:
            return None
        channel = stream if isinstance(stream, str) else getattr(stream, "channel", "")
        passed: list[bytes] | None = None
        with contained(NOT_PASSED):
            passed = passed_on(channel, [each for each in parts[1:] if isinstance(each, bytes)])
        return passed and [*identities, b"<IDS|MSG>", self.session.sign(passed), *passed]


def _size(message: list[bytes]) -> int:
    """The bytes that a message takes, also if its parts are many and empty."""
    return sum(len(each) + 64 for each in message)


def is_result(place: PurePath) -> bool:
    """Whether a place is in a folder of results, or in a copy of one that JupyterLab has made."""
    return any(each == RESULTS or each.startswith(f"{RESULTS}-Copy") for each in place.parts)


def _guard_kernels(manager: Any) -> None:
    """Have no kernel that nothing isolates begin in a folder of results: it would import modules from there."""
    start: Callable[..., Awaitable[str]] = manager.start_kernel

    async def guarded(*given: Any, path: str | None = None, **named: Any) -> str:
        folder = Path(manager.cwd_for_path(path or ""))
        real = Path(os.path.realpath(folder))
        found = next((each for each in (folder, real) if is_result(each)), None)
        if found is None or _is_sandboxed(manager.kernel_spec_manager, named.get("kernel_name")):
            return await start(*given, path=path, **named)
        above = next(each for each in found.parents if not is_result(each))
        return await start(*given, **named | {"cwd": str(above)})

    manager.start_kernel = guarded


def _is_sandboxed(specs: Any, name: str | None) -> bool:
    """Whether a kernelspec is one of a sandboxed kernel, whatever it is called."""
    if str(name).startswith(SANDBOXED):
        return True
    with contextlib.suppress(NoSuchKernel):
        stanza = specs.get_kernel_spec(name).metadata.get("kernel_provisioner") if name else None
        return str((stanza or {}).get("provisioner_name", "")).startswith(SANDBOXED)
    return False


def _is_heavy(place: Path) -> bool:
    """Whether a server would take much memory and time to read a notebook, in which it does nothing else."""
    with contextlib.suppress(OSError):
        if place.is_file():  # the server itself refuses anything else: a cloned folder has links to devices
            with place.open("rb") as file:
                content = file.read(MAX_NOTEBOOK + 1)  # files of Linux's own have no size
            return len(content) > MAX_NOTEBOOK or weight(content) > MAX_WEIGHT
    return False


def _guard_contents(server: ServerApp, setting: Setting) -> None:
    """Have every reader of the server's notebooks get those harmless that sandboxed code has made, or drawn in."""
    manager: Any = server.contents_manager
    get: Callable[..., Any] = manager.get

    def result(path: str) -> Path | None:
        place = Path(f"{manager.root_dir}/{path}")
        return place if is_result(place) or is_result(Path(os.path.realpath(place))) else None

    def refuse_large(path: str) -> None:
        if (place := result(path)) is not None and _is_heavy(place):
            raise web.HTTPError(400, f"Code has made {place.name[:80]}, and it is too large for a notebook.")

    def harmless(model: Any) -> Any:
        content = model.get("content")
        if model.get("type") != "notebook" or not isinstance(content, dict) or setting:
            return model
        spec = content.get("metadata", {}).get("kernelspec") or {}
        if result(model["path"]) is not None:
            content = clean_notebook(content, rest=PASSED)
        elif _is_sandboxed(server.kernel_spec_manager, spec.get("name")):
            content = clean_shown(content, rest=PASSED)
        return {**model, "content": from_dict(content)}

    async def later(found: Awaitable[Any]) -> Any:
        return await asyncio.to_thread(harmless, await ensure_async(found))

    def guarded(path: str, content: bool = True, type: str | None = None, *given: Any, **named: Any) -> Any:
        if content and (type == "notebook" or (type is None and path.endswith(".ipynb"))):
            refuse_large(path)
        found = get(path, content, type, *given, **named)
        return later(found) if inspect.isawaitable(found) else harmless(found)

    manager.get = guarded
