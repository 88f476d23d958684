"""What every engine that isolates shows of a person's data; part of `contract.py`."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from sandbox.inner import sandbox_of, value

from nbagent.core.errors import DataError
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.data.mirror import SMALL
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.data.tree import HiddenReason
from nbagent.sandbox.spec import SandboxSpec

LOOK = """
import json, os
found = {}
for at, _, names in os.walk("/tmp/data", followlinks=True):
    for name in names:
        path = os.path.join(at, name)
        found[os.path.relpath(path, "/tmp/data")] = open(path).read()
print(json.dumps(found))
"""


class ShowsData:
    """What code sees at /tmp/data, and what it does not."""

    pytestmark = pytest.mark.asyncio(loop_scope="module")

    async def test_data_is_read(self, isolated: Kernel) -> None:
        """Files and folders lie at /tmp/data, with what is in them."""
        code = """
import json
print(json.dumps([open("/tmp/data/outer.txt").read(), open("/tmp/data/folder/inner.txt").read()]))
"""
        assert await value(isolated, code) == ["outer.txt", "inner.txt"]

    async def test_any_name_can_be_mounted(self, engine: Engine, tmp_path: Path) -> None:
        """Spaces, other scripts, colons, commas, quotes, line breaks, options and long names are names."""
        names = [
            "with two  spaces.csv",
            "größe-数据-📈.csv",
            "x" * 230 + ".csv",
            "a:b.csv",
            "a,b=c.csv",
            "line\nbreak.csv",
            "-rf",
            'it\'s "quoted" $(touch x) `x`.csv',
            "back\\slash\\040.csv",
            "%2e%2e.csv",
            " leading and trailing ",
        ]
        for name in names:
            (tmp_path / name).write_text(name)
        data = tuple(Mount(tmp_path / name, f"/tmp/data/{name}") for name in names)
        code = """
import json, os
found = sorted(os.listdir("/tmp/data"))
print(json.dumps([found, [open("/tmp/data/" + name).read() == name for name in found]]))
"""
        async with Kernel(engine, SandboxSpec(data=data)) as kernel:
            found, right = await value(kernel, code)
        assert found == sorted(names)
        assert all(right)

    async def test_a_private_file_is_readable_through_a_copy(self, engine: Engine, tmp_path: Path) -> None:
        """A file of mode 0600 is readable inside, its original untouched, and its copy goes with the sandbox."""
        private = tmp_path / "private.csv"
        private.write_text("a,b\n1,2\n")
        private.chmod(0o600)
        async with Kernel(engine, SandboxSpec(data=(Mount(private, "/tmp/data/private.csv"),))) as kernel:
            scratch = sandbox_of(kernel).scratch
            assert await value(kernel, "import json; print(json.dumps(open('/tmp/data/private.csv').read()))")
            assert not scratch.stat().st_mode & 0o077, "another user of the host could read the copy"
            writing = await kernel.run("open('/tmp/data/private.csv', 'a')")
            assert writing.status == "error"
        assert private.read_text() == "a,b\n1,2\n"
        assert private.stat().st_mode & 0o777 == 0o600
        assert not scratch.exists()

    async def test_a_private_folder_is_readable_file_by_file(self, engine: Engine, tmp_path: Path) -> None:
        """Of a folder of mode 0700 every file is readable inside, in folders of that mode too, and none is writable."""
        folder = tmp_path / "closed"
        for each in (folder, folder / "inner", folder / "inner" / "innermost"):
            each.mkdir(mode=0o700)
            (each / "file.csv").write_text(each.name)
            (each / "file.csv").chmod(0o600)
        code = """
import json, os
found = {}
for at, _, files in os.walk("/tmp/data"):
    for name in files:
        path = os.path.join(at, name)
        found[path] = [open(path).read(), os.access(path, os.W_OK)]
print(json.dumps(found))
"""
        async with Kernel(engine, SandboxSpec(data=(Mount(folder, "/tmp/data"),))) as kernel:
            assert await value(kernel, code) == {
                "/tmp/data/file.csv": ["closed", False],
                "/tmp/data/inner/file.csv": ["inner", False],
                "/tmp/data/inner/innermost/file.csv": ["innermost", False],
            }
        assert folder.stat().st_mode & 0o777 == 0o700

    async def test_links_lead_nowhere_outside(self, engine: Engine, clone: Path) -> None:
        """Of a folder that somebody else made, links to what is outside or hidden are not there; the others work."""
        data = (Mount(clone, "/tmp/data/clone"), Mount(clone / "sub", "/tmp/data/sub"))
        async with Kernel(engine, SandboxSpec(data=data)) as kernel:
            assert await value(kernel, LOOK) == {
                "clone/a.csv": "a",
                "clone/absolute.csv": "b",
                "clone/folder/b.csv": "b",
                "clone/sub/b.csv": "b",
                "sub/b.csv": "b",
            }
            left_out = sandbox_of(kernel).data.left_out
        assert left_out == {
            HiddenReason.HIDDEN: ["clone/.git", "clone/sub/.env", "sub/.env"],
            HiddenReason.SPECIAL: ["clone/sub/pipe", "sub/pipe"],
            HiddenReason.LINK: [
                *(f"clone/{each}" for each in ("chain.csv", "data.csv", "figures", "rootfs", "sub/chain.csv")),
                "sub/chain.csv",
            ],
        }

    async def test_data_is_seen_as_it_is(self, engine: Engine, clone: Path) -> None:
        """What is added, replaced, written to or removed on the host is seen, filtered as at the start."""
        (clone / "replaced.csv").write_text("old")
        (clone / "removed.csv").write_text("r")
        (clone / "becomes").mkdir()
        (clone / "becomes" / "x.csv").write_text("x")
        single = clone.parent / "single.csv"
        single.write_text("old")
        data = (Mount(clone, "/tmp/data/clone"), Mount(single, "/tmp/data/single.csv"))
        async with Kernel(engine, SandboxSpec(data=data)) as kernel:
            before = await value(kernel, LOOK)
            assert (before["clone/replaced.csv"], before["single.csv"]) == ("old", "old")
            for at in (clone / ".env", clone / "sub" / ".env", clone / ".git" / "config"):
                at.write_text("secret")
            (clone / "later.csv").symlink_to("../.ssh/id")
            (clone / "becomes").rename(clone / "was")
            (clone / "becomes").symlink_to("../.ssh")
            for at in (clone / "replaced.csv", single):
                (clone.parent / "new").write_text("new")
                (clone.parent / "new").replace(at)
            (clone / "removed.csv").unlink()
            (clone / "sub" / "deep").mkdir()
            (clone / "sub" / "deep" / "added.csv").write_text("added")
            with (clone / "a.csv").open("a") as file:
                file.write("+")
            changed = time.monotonic()
            expected = before | {
                "clone/a.csv": "a+",
                "clone/replaced.csv": "new",
                "single.csv": "new",
                "clone/was/x.csv": "x",
                "clone/sub/deep/added.csv": "added",
                "clone/folder/deep/added.csv": "added",
            }
            del expected["clone/removed.csv"], expected["clone/becomes/x.csv"]
            while (now := await value(kernel, LOOK)) != expected and time.monotonic() < changed + 60:
                await asyncio.sleep(0.02)
            assert now == expected
            await kernel.restart()
            assert await value(kernel, LOOK) == expected

    async def test_who_takes_a_sandbox_over_goes_on_with_its_data(self, engine: Engine, clone: Path) -> None:
        """What changes while nobody holds it, and later, is seen after that; with the sandbox the mirror goes."""
        kernel = Kernel(engine, SandboxSpec(data=(Mount(clone, "/tmp/data"),), owner="somebody", keep=60))
        other = Kernel(engine)
        try:
            await kernel.start()
            folder, scratch = kernel.about.folder, sandbox_of(kernel).scratch
            await kernel.detach()
            (clone / "meanwhile.csv").write_text("m")
            (clone / ".env").write_text("secret")
            await other.take_over(folder)
            (clone / "later.csv").write_text("l")
            end = time.monotonic() + 60
            while "later.csv" not in (now := await value(other, LOOK)) and time.monotonic() < end:
                await asyncio.sleep(0.02)
            assert (now["meanwhile.csv"], now["later.csv"]) == ("m", "l")
            assert not [path for path in now if "id" in path or ".env" in path]
        finally:
            await kernel.stop()
            await other.stop()
        assert not scratch.exists()
        assert (clone / "a.csv").stat().st_nlink == 1
        assert (clone.parent / ".ssh" / "id").read_text() == "secret"

    @pytest.mark.needs("root")
    async def test_a_file_that_is_mounted_is_seen_when_it_is_replaced(self, engine: Engine, elsewhere: Path) -> None:
        """A large file of another file system is mounted alone; a new one in its place comes as a copy."""
        (elsewhere / "large").write_bytes(b"1" * (2 * SMALL))
        look = "import json; print(json.dumps(open('/tmp/data/large').read(1)))"
        async with Kernel(engine, SandboxSpec(data=(Mount(elsewhere, "/tmp/data"),))) as kernel:
            assert [each.target for each in sandbox_of(kernel).data.mounts] == ["/tmp/data", "/tmp/data/large"]
            assert await value(kernel, look) == "1"
            (elsewhere / "new").write_bytes(b"2" * (2 * SMALL))
            (elsewhere / "new").replace(elsewhere / "large")
            end = time.monotonic() + 60
            while (now := await value(kernel, look)) != "2" and time.monotonic() < end:
                await asyncio.sleep(0.02)
            assert now == "2"

    async def test_data_that_is_gone_is_an_error(self, engine: Engine, tmp_path: Path) -> None:
        """A file that vanished before the start is named."""
        with pytest.raises(DataError, match=r"gone\.csv"):
            await Kernel(engine, SandboxSpec(data=(Mount(tmp_path / "gone.csv", "/tmp/data/gone.csv"),))).start()

    async def test_a_link_in_a_folder_leads_nowhere(self, engine: Engine, tmp_path: Path, aims: dict[str, Any]) -> None:
        """A link from a mounted folder to a file outside of it is dangling inside."""
        folder = tmp_path / "data"
        folder.mkdir()
        folder.chmod(0o755)
        (folder / "link").symlink_to(aims["canary"])
        assert (folder / "link").read_text() == aims["secret"]
        async with Kernel(engine, SandboxSpec(data=(Mount(folder, "/tmp/data"),))) as kernel:
            cell = await kernel.run("open('/tmp/data/link')")
        assert cell.status == "error"
