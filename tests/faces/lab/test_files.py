"""Files of a session over REST, and outputs that are too large for a channel."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import psutil
from faces.lab.conftest import Server
from program import replies

HOSTILE = "<script>alert(1)</script>"
SAVE = f"import pathlib\npathlib.Path('/tmp/output/page.html').write_text({HOSTILE!r})"
LARGE = """
from IPython.display import display
for kind in ("image/png", "text/html", "application/json"):
    display({kind: "A" * 4_000_000 if kind != "application/json" else list(range(400_000))}, raw=True)
print("begin " + "x" * 3_000_000 + " end")
raise ValueError("y" * 3_000_000)
"""


async def test_a_file_is_uploaded_named_in_a_question_listed_and_fetched(server: Server) -> None:
    """Streamed to a file beside the session, which is gone afterwards."""
    replies(server.root / "up.jsonl", "I see it.")
    id = await server.session(model="replay:up.jsonl")
    content = b"a,b\n1,2\n" * 400_000
    made = await server.json("POST", f"sessions/{id}/uploads?name=t%C3%A4ble.csv", content)
    assert made == {
        "path": "/workspace/täble.csv",
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "unpacked": 0,
    }
    listed = await server.json("GET", f"sessions/{id}/files?folder=/workspace")
    assert [(each["path"], each["kind"], each["size"]) for each in listed["files"]] == [
        ("/workspace/täble.csv", "file", len(content))
    ]
    assert (listed["total"], listed["is_running"], listed["artifacts"]) == (1, True, [])
    found = await server.fetch("GET", f"sessions/{id}/download?path=/workspace/t%C3%A4ble.csv")
    assert (found.code, found.body) == (200, content)
    assert found.headers["Content-Disposition"] == "attachment; filename*=utf-8''t%C3%A4ble.csv"
    async with server.page(id) as page:
        await page.call("ask", question="What is it?", uploaded=["/workspace/täble.csv"])
        sent = page.events("SentToModel")[-1]["pieces"]
        told = "What is it?\n\n[The person uploaded: /workspace/täble.csv]"
        assert hashlib.sha256(told.encode()).hexdigest() in [each["sha256"] for each in sent]
        assert page.events("Asked")[0]["question"] == "What is it?"
    folder = server.folder / "state" / "sessions" / id
    assert [each.name for each in folder.iterdir() if each.name.startswith(".sent-")] == []
    await server.fetch("DELETE", f"sessions/{id}")


async def test_what_a_session_made_is_saved_and_never_shown_as_a_page(server: Server) -> None:
    """Also after its end; what was changed since is refused."""
    id = await server.session()
    async with server.page(id) as page:
        await page.call("run", code=SAVE)
        await page.call("stop")
        await page.state("ended")
    listed = await server.json("GET", f"sessions/{id}/files")
    assert (listed["files"], listed["is_running"]) == ([], False)
    artifact = listed["artifacts"][0]
    assert (artifact["name"], artifact["content_type"], artifact["cell"]) == ("page.html", "text/html", 1)
    found = await server.fetch("GET", f"sessions/{id}/artifacts/{artifact['id']}")
    assert found.body.decode() == HOSTILE
    headers = found.headers
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["Content-Disposition"] == "attachment; filename*=utf-8''page.html"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    place = next((server.folder / "state" / "sessions" / id).glob("**/page.html"))
    place.write_text("other")
    status, refusal = await server.refused("GET", f"sessions/{id}/artifacts/{artifact['id']}")
    assert (status, "was changed" in refusal["message"]) == (503, True)
    status, refusal = await server.refused("POST", f"sessions/{id}/uploads?name=a", b"a")
    assert (status, refusal["mend"]) == (409, "Resume it.")
    for path in (f"artifacts/{id}:9999", "artifacts/other:1"):
        assert (await server.refused("GET", f"sessions/{id}/{path}"))[0] in (400, 503)
    await server.fetch("DELETE", f"sessions/{id}")


async def test_an_upload_is_bounded_and_costs_no_memory(tmp_path: Path) -> None:
    """By its head before a byte is read, and by its bytes; a wrong name is said in a sentence."""
    server = Server(tmp_path, "--NbagentApp.max_upload_mb=64")
    try:
        id = await server.session()
        before = psutil.Process(server.process.pid).memory_info().rss
        made = await server.json("POST", f"sessions/{id}/uploads?name=zeros", bytes(60 * 2**20))
        assert made["size"] == 60 * 2**20
        assert psutil.Process(server.process.pid).memory_info().rss - before < 30e6
        status, refusal = await server.refused("POST", f"sessions/{id}/uploads?name=zeros", bytes(65 * 2**20))
        assert (status, "67,108,864 bytes" in refusal["message"]) == (413, True)
        assert (await server.refused("POST", f"sessions/{id}/uploads", b"a"))[1]["message"] == "The file has no name."
        status, refusal = await server.refused("GET", f"sessions/{id}/download?path=/etc/passwd")
        assert (status, refusal["kind"]) == (413, "TransferLimit")
        status, refusal = await server.refused("GET", f"sessions/{id}/download?path=/workspace/none")
        assert (status, refusal["kind"]) == (400, "TransferError")
        await server.fetch("DELETE", f"sessions/{id}")
    finally:
        server.stop()


async def test_large_outputs_come_cut_with_a_way_to_the_rest(server: Server) -> None:
    """Each record stays small; texts keep both ends, other types say how large they are."""
    id = await server.session()
    async with server.page(id) as page:
        await page.call("run", code=LARGE)
        assert max(len(json.dumps(each)) for each in page.records) < 1_200_000
        ended = page.events("CellFinished")[0]
        png, html, plain, stream, error = ended["outputs"]
        assert png["data"] == {"text/plain": "[image/png (4 MB)]"}
        assert png["metadata"]["nbagent"]["cut"] == {"image/png": 4_000_002}
        assert html["data"]["text/plain"].startswith("[text/html")
        assert plain["data"]["text/plain"].startswith("[application/json")
        assert stream["text"].startswith("begin xxx")
        assert stream["text"].endswith("xxx end\n")
        assert "more characters" in stream["text"]
        assert error["ename"] == "ValueError"
        record = next(each for each in page.records if each["event"]["type"] == "CellFinished")
        whole = await server.json("GET", record["whole"])
        assert whole["seq"] == record["seq"]
        assert len(whole["event"]["outputs"][0]["data"]["image/png"]) == 4_000_000
        assert "whole" not in page.records[0]
    assert (await server.refused("GET", f"sessions/{id}/records/99999"))[0] == 400
    await server.fetch("DELETE", f"sessions/{id}")
