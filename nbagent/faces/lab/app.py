"""The extension: what is set as `c.NbagentApp.…` in the configuration of a Jupyter server, and its endpoints."""

from __future__ import annotations

from dataclasses import fields

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.extension.application import ExtensionApp
from traitlets import Integer, Unicode

from nbagent.faces.lab import available, distrust, exporters, jobs, kernelspecs
from nbagent.faces.lab.available import Available
from nbagent.faces.lab.channel import PageChannel
from nbagent.faces.lab.config import SETTING, Config
from nbagent.faces.lab.files import ArtifactHandler, DownloadHandler, FilesHandler, RecordHandler, UploadsHandler
from nbagent.faces.lab.jobs import Jobs
from nbagent.faces.lab.notebooks import ExportHandler, JobHandler, PictureHandler, VerifyHandler
from nbagent.faces.lab.sessions import SessionHandler, SessionsHandler
from nbagent.faces.lab.status import EnginesHandler, LossHandler, ModelsHandler, StatusHandler

API = "/nbagent/api"
ID = r"(?P<id>[A-Za-z0-9][A-Za-z0-9._-]{0,63})"

ENDPOINTS: list[tuple[str, type[JupyterHandler]]] = [
    (f"{API}/status", StatusHandler),
    (f"{API}/engines", EnginesHandler),
    (f"{API}/kernels/{ID}/loss", LossHandler),
    (f"{API}/models", ModelsHandler),
    (f"{API}/sessions", SessionsHandler),
    (f"{API}/sessions/{ID}", SessionHandler),
    (f"{API}/sessions/{ID}/channel", PageChannel),
    (f"{API}/sessions/{ID}/export", ExportHandler),
    (f"{API}/verify", VerifyHandler),
    (f"{API}/jobs/{ID}", JobHandler),
    (f"{API}/jobs/{ID}/pictures/(?P<picture>[^/]+)", PictureHandler),
    (f"{API}/sessions/{ID}/uploads", UploadsHandler),
    (f"{API}/sessions/{ID}/files", FilesHandler),
    (f"{API}/sessions/{ID}/download", DownloadHandler),
    (f"{API}/sessions/{ID}/artifacts/(?P<artifact>[^/]+)", ArtifactHandler),
    (f"{API}/sessions/{ID}/records/(?P<number>[1-9][0-9]{{0,9}})", RecordHandler),
]


class NbagentApp(ExtensionApp):
    """nbagent's part of a Jupyter server."""

    name = "nbagent"
    description = "The assistant of the JupyterLab panel."

    state_dir = Unicode(help="The folder of sessions; where the person's settings say by default.").tag(config=True)
    model = Unicode(help="The model of new sessions, provider:model; as the settings say by default.").tag(config=True)
    trust = Unicode(help="The trust level of new sessions; as the settings say by default.").tag(config=True)
    engine = Unicode(help="The engine of new sessions; as the settings say by default.").tag(config=True)
    approvals = Unicode(
        "ask", help="What the model must ask for in new sessions: ask, auto-edit, allow-list or never-ask."
    ).tag(config=True)
    max_upload_mb = Integer(1024, min=1, help="MiB of the largest file that can be uploaded.").tag(config=True)

    def initialize_settings(self) -> None:
        """Give the endpoints what is set."""
        names = (each.name for each in fields(Config))
        lab = Config(**{name: getattr(self, name) for name in names})
        self._jobs = Jobs(lab)
        exporters.guard()
        assert self.serverapp is not None  # noqa: S101 - which begins this
        distrust.guard(self.serverapp, self.settings)
        kernelspecs.mark(self.serverapp.kernel_spec_manager)
        self.settings |= {SETTING: lab, available.SETTING: Available(lab), jobs.SETTING: self._jobs}

    def initialize_handlers(self) -> None:
        """Add the endpoints."""
        self.handlers.extend(ENDPOINTS)

    async def stop_extension(self) -> None:
        """Stop what this process has begun; sessions go on."""
        await self._jobs.close()
