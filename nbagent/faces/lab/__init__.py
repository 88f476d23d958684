"""The server part of the JupyterLab panel, an extension of jupyter_server.

    app.py       the extension: its traits and endpoints     config.py     what is set, and where the sessions are
    base_handler.py  what each endpoint checks; refusals     messages.py   what goes over REST and the channel
    status.py    what new sessions begin with                sessions.py   the list of sessions
    channel.py   the WebSocket of one page                   relay.py      what goes over it
    calls.py     what a page may call                        contents.py   paths that a page gives
    records.py   a session's records as pages get them     exporters.py  what the server's own exports may import
    distrust.py  makes harmless, for all pages of the server, what sandboxed kernels say (kernel_messages.py) and save
    kernelspecs.py   marks sandboxed kernels that can't start here

Sessions live in host processes. This one reads their logs and relays calls to them, so it imports neither models nor
kernels, and loses nothing when it ends.
"""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Where jupyter_server finds the extension."""
    from nbagent.faces.lab.app import NbagentApp

    return [{"module": "nbagent.faces.lab", "app": NbagentApp}]
