"""The list of sessions over REST, and what every endpoint refuses."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from faces.lab.conftest import Server

import nbagent
from nbagent.core.events import Answered, Asked
from nbagent.core.session_log import SessionLog

ENDPOINTS = {
    "status": ("GET",),
    "engines": ("GET",),
    "models": ("GET",),
    "kernels/any/loss": ("POST",),
    "sessions": ("GET", "POST"),
    "sessions/any": ("GET", "PATCH", "DELETE"),
    "sessions/any/channel": ("GET",),
    "sessions/any/export": ("POST",),
    "verify": ("POST",),
    "jobs/any": ("GET", "DELETE"),
    "jobs/any/pictures/any": ("GET",),
    "sessions/any/uploads": ("POST",),
    "sessions/any/files": ("GET",),
    "sessions/any/download": ("GET",),
    "sessions/any/artifacts/any": ("GET",),
    "sessions/any/records/1": ("GET",),
}
"""All endpoints, with their methods."""
EVERY = [(method, path) for path, methods in ENDPOINTS.items() for method in methods]
CHANGING = [(method, path) for method, path in EVERY if method != "GET"]
AUTHORIZER = """
from jupyter_server.auth import Authorizer
class Few(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        return resource != "nbagent" or action == open({path!r}).read().strip()
c.ServerApp.authorizer_class = Few
"""

NO_FILES = """
from jupyter_server.auth import Authorizer
class NoFiles(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        return resource != "contents"
c.ServerApp.authorizer_class = NoFiles
"""


def written(server: Server, name: str, question: str = "Which?", answer: str = "That.") -> None:
    """A session that has ended."""
    log = SessionLog(server.folder / "state", name)
    log.emit(Asked(turn=1, question=question))
    log.emit(Answered(turn=1, text=answer, success=True, attempts=1))
    log.close()


def test_the_table_here_has_every_endpoint() -> None:
    """A new endpoint is tested for what it refuses."""
    from nbagent.faces.lab.app import API
    from nbagent.faces.lab.app import ENDPOINTS as KNOWN

    paths = {re.sub(r"\(\?P<(id|artifact|picture)>[^)]*\)", "any", path).removeprefix(f"{API}/") for path, _ in KNOWN}
    assert {re.sub(r"\(\?P<number>[^)]*\)", "1", path) for path in paths} == set(ENDPOINTS)


async def test_status_tells_what_new_sessions_begin_with(server: Server) -> None:
    found = await server.json("GET", "status")
    assert found["version"] == nbagent.__version__
    assert (found["protocol"], found["trust"], found["engine"], found["model"]) == (1, "isolated", "bubblewrap", None)
    assert (found["approvals"], found["max_upload_mb"], found["lists_hosts"]) == ("ask", 1024, False)


async def test_status_tells_whether_hosts_are_listed(tmp_path: Path) -> None:
    """Then new sessions ask about others, whichever level is chosen."""
    server = Server(tmp_path, NBAGENT_ALLOW_HOSTS="example.org")
    try:
        assert (await server.json("GET", "status"))["lists_hosts"]
    finally:
        server.stop()


async def test_a_session_is_made_named_and_removed(server: Server) -> None:
    id = await server.session(trust="untrusted")
    listed = await server.json("GET", "sessions")
    assert listed["total"] == len(listed["sessions"])
    entry = next(each for each in listed["sessions"] if each["id"] == id)
    assert (entry["state"], entry["trust"], entry["engine"], entry["cost"]) == ("running", "untrusted", "bubblewrap", 0)
    assert not any("/" in str(value) for value in entry.values())
    await server.json("PATCH", f"sessions/{id}", {"title": "Mine"})
    assert (await server.json("GET", f"sessions/{id}"))["title"] == "Mine"
    assert (await server.fetch("DELETE", f"sessions/{id}")).code == 204
    assert (await server.refused("GET", f"sessions/{id}"))[0] == 404
    assert not (server.folder / "state" / "sessions" / id).exists()


async def test_sessions_are_found_by_their_words(server: Server) -> None:
    for number in range(3):
        written(server, f"found{number}", question=f"What of the Größe {number}?")
    assert await server.json("GET", "sessions?search=nothing+of+it") == {"hits": [], "is_whole": True}
    found = await server.json("GET", "sessions?search=GR%C3%96SSE&limit=2")
    assert [each["where"] for each in found["hits"]] == ["title", "question"]
    assert found["is_whole"] is False
    listed = await server.json("GET", "sessions?limit=1")
    assert (len(listed["sessions"]), listed["total"] >= 3) == (1, True)
    for number in range(3):
        await server.fetch("DELETE", f"sessions/found{number}")


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "words"),
    [
        ("POST", "sessions", {"trust": "full"}, 400, "trust"),
        ("POST", "sessions", {"state_dir": "/tmp"}, 400, "state_dir"),
        ("POST", "sessions", {"data": ["../a.csv"]}, 400, "no file or folder"),
        ("POST", "sessions", {"data": ["out/passwd"]}, 400, "leads out"),
        ("POST", "sessions", {"data": [".secret"]}, 400, "is hidden"),
        ("POST", "sessions", {"data": ["hidden"]}, 400, "is hidden"),
        ("POST", "sessions", {"data": ["/"]}, 400, "no file or folder"),
        ("POST", "sessions", {"data": ["gone.csv"]}, 400, "no file or folder"),
        ("POST", "sessions", {"model": "replay:/etc/passwd"}, 400, "replay file"),
        ("POST", "sessions", {"fallback": ["replay:../a"]}, 400, "no file or folder"),
        ("POST", "sessions", {"fallback": ["\treplay:../a"]}, 400, "no file or folder"),
        ("POST", "sessions", {"critic": "replay:out/passwd"}, 400, "leads out"),
        ("POST", "sessions", {"model": "nobody:at-all"}, 400, "nobody"),
        ("POST", "sessions", b"{", 400, "body is wrong"),
        ("POST", "sessions", b"[" * 100_000, 400, "body is wrong"),
        ("POST", "sessions", b" " * 2_000_000, 413, "1,048,576 bytes"),
        ("GET", "sessions?limit=all", None, 400, "no number"),
        ("GET", f"sessions?limit={'9' * 5000}", None, 400, "no number"),
        ("PATCH", "sessions/gone", {"title": "a"}, 404, "no session"),
        ("DELETE", "sessions/gone", None, 404, "no session"),
        ("DELETE", "sessions/link", None, 404, "no session"),
    ],
)
async def test_wrong_use_is_a_sentence(
    server: Server, method: str, path: str, body: object, code: int, words: str
) -> None:
    """With the status that says of what kind it is."""
    for name, target in {"out": Path("/etc"), "hidden": server.root / ".secret"}.items():
        if not (server.root / name).is_symlink():
            (server.root / name).symlink_to(target)
    (server.root / ".secret").write_text("key")
    link = server.folder / "state" / "sessions" / "link"
    if not link.is_symlink():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to("/etc")
    status, refusal = await server.refused(method, path, body)
    assert status == code
    assert words in refusal["message"]
    assert refusal["message"].endswith((".", "…"))


@pytest.mark.parametrize(("method", "path"), EVERY)
async def test_strangers_get_nothing(server: Server, method: str, path: str) -> None:
    """Without a token, and with a wrong one."""
    for token in (None, "wrong"):
        found = await server.fetch(method, path, b"{}" if method != "GET" else None, token=token)
        assert found.code == 403
        assert "channel" in path or json.loads(found.body)["mend"] == "Log in again."


@pytest.mark.parametrize(("method", "path"), CHANGING)
async def test_a_change_needs_the_xsrf_token(server: Server, method: str, path: str) -> None:
    """Of a browser in which a person has logged in: another site's page can send the cookies, and not the token."""
    cookies = await server.cookies()
    body = b'{"nothing": 1}'
    found = await server.fetch(method, path, body, token=None, Cookie=cookies)
    assert found.code == 403
    assert b"_xsrf" in found.body
    token = next(each.partition("=")[2] for each in cookies.split("; ") if each.startswith("_xsrf="))
    found = await server.fetch(method, path, body, token=None, Cookie=cookies, **{"X-XSRFToken": token})
    assert found.code in (400, 404)
    evil = {"X-XSRFToken": token, "Origin": "http://evil.example"}
    assert (await server.fetch(method, path, body, token=None, Cookie=cookies, **evil)).code == 404


def _config(folder: Path, authorizer: str) -> str:
    """The option for a configuration with an authorizer."""
    (folder / "config.py").write_text(authorizer.format(path=str(folder / "may")))
    return f"--config={folder / 'config.py'}"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose authorizer lets only one action through: that which the file `may` names."""
    folder = tmp_path_factory.mktemp("strict")
    server = Server(folder, _config(folder, AUTHORIZER))
    yield server
    server.stop()


@pytest.mark.parametrize(("method", "path"), EVERY)
async def test_an_authorizer_is_asked(strict: Server, method: str, path: str) -> None:
    """Whoever may only execute can neither read nor write."""
    (strict.folder / "may").write_text("execute")
    found = await strict.fetch(method, path, b"{}" if method != "GET" else None)
    assert found.code == 403
    if "channel" not in path:
        refusal = json.loads(found.body)
        assert (refusal["message"], refusal["kind"]) == ("You may not do this.", "ForbiddenError")


async def test_who_may_only_look_calls_nothing(strict: Server) -> None:
    """A page sees a session that is another's to use."""
    (strict.folder / "may").write_text("read")
    written(strict, "seen")
    assert (await strict.json("GET", "sessions"))["total"] == 1
    async with strict.page("seen") as page:
        await page.event("Answered")
        failure = (await page.end(await page.begin("resume")))["failure"]
        assert failure["message"] == "You may look at this session, and not use it."
    shutil.rmtree(strict.folder / "state")


async def test_who_may_not_use_the_files_of_the_server_names_none(tmp_path: Path) -> None:
    """A session is no way around an authorizer that keeps them from somebody."""
    server = Server(tmp_path, _config(tmp_path, NO_FILES))
    (server.root / "a.csv").write_text("a\n1\n")
    written(server, "done")
    wanted = [
        ("sessions", {"data": ["a.csv"]}, "read"),
        ("sessions", {"model": "replay:a.csv"}, "read"),
        ("sessions/done/export", {"path": "a.ipynb"}, "write"),
        ("verify", {"path": "a.ipynb"}, "read"),
        ("verify", {"path": "a.ipynb", "write": True}, "write"),
    ]
    try:
        for path, body, action in wanted:
            status, refusal = await server.refused("POST", path, body)
            assert (status, refusal["message"]) == (400, f"You may not {action} the files of this server.")
        async with server.page("done") as page:
            failure = (await page.end(await page.begin("resume", model="replay:a.csv")))["failure"]
            assert failure["message"] == "You may not read the files of this server."
    finally:
        server.stop()
    shutil.rmtree(server.folder / "state")


def test_the_page_names_the_settings_and_the_endpoints() -> None:
    """All traits of the extension's own, and no endpoint that isn't there."""
    from nbagent.faces.lab.app import NbagentApp

    page = (Path(__file__).parents[3] / "docs" / "jupyterlab.md").read_text()
    own = {name for name, trait in NbagentApp.class_traits(config=True).items() if trait.this_class is NbagentApp}
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", page.partition("## The server part")[2], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"\w+", row)} == own
    assert set(re.findall(r"c\.NbagentApp\.(\w+)", page)) <= own
    named = re.findall(r"(?:GET|POST|WS) ([\w/]+)", page)
    assert {name.replace("/ID", "/any").replace("/A", "/any").replace("/N", "/1") for name in named} <= set(ENDPOINTS)


async def test_files_that_are_not_on_this_machine_have_no_path_here(tmp_path: Path) -> None:
    """A server whose files are kept elsewhere calls the root of the host its root folder."""
    (tmp_path / "elsewhere.py").write_text(
        "from jupyter_server.services.contents.manager import ContentsManager\n"
        "class Elsewhere(ContentsManager):\n    pass\n"
    )
    contents = "--ServerApp.contents_manager_class=elsewhere.Elsewhere"
    server = Server(tmp_path, contents, PYTHONPATH=str(tmp_path))
    status, refusal = await server.refused("POST", "sessions", {"data": ["etc/passwd"]})
    server.stop()
    assert (status, refusal["mend"]) == (400, "Upload the file to the session.")
