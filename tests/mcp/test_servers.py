"""Which servers a person has: the file, its variables, its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nbagent.core.errors import UsageError
from nbagent.mcp.servers import ServerEntry, config_file, load


def written(folder: Path, content: Any, *, name: str = "mcp.json") -> Path:
    """A file with this content, as JSON unless it is text."""
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def read(folder: Path, entry: Any, **environment: str) -> ServerEntry:
    """The one server of a file with this entry."""
    (server,) = load(written(folder, {"mcpServers": {"one": entry}}), environment=environment)
    return server


def test_reads_programs_and_addresses(tmp_path: Path) -> None:
    """Both forms of an entry are read, in the order of the file; an address without a type is streamable HTTP."""
    entries = {
        "time": {"command": "uvx", "args": ["mcp-server-time", 3], "env": {"TZ": "UTC"}},
        "far": {"url": "https://example.org/mcp", "headers": {"X-A": "1"}},
        "old": {"type": "sse", "url": "http://127.0.0.1:1/sse"},
        "vs": {"type": "stdio", "command": "x"},
    }
    servers = load(written(tmp_path, {"mcpServers": entries}), environment={})
    assert [(each.name, each.transport) for each in servers] == [
        ("time", "stdio"), ("far", "http"), ("old", "sse"), ("vs", "stdio"),
    ]  # fmt: skip
    assert (servers[0].command, servers[0].args, servers[0].env) == ("uvx", ("mcp-server-time", "3"), {"TZ": "UTC"})
    assert (servers[1].url, servers[1].headers) == ("https://example.org/mcp", {"X-A": "1"})


def test_reads_the_key_of_vs_code(tmp_path: Path) -> None:
    """VS Code's file has `servers` in place of `mcpServers`, and writes variables of the environment with `env:`."""
    file = written(tmp_path, {"inputs": [], "servers": {"a": {"command": "x", "args": ["${env:HOME}"]}}})
    assert load(file, environment={"HOME": "/h"})[0].args == ("/h",)


def test_variables_are_expanded_everywhere_once(tmp_path: Path) -> None:
    """`${VAR}` and `${VAR:-default}` stand for the environment; what they stand for is not expanded again."""
    entry = {"command": "${BIN:-run}", "args": ["a${X}b", "${EMPTY}", "$X", "${NO:-}"], "env": {"K": "${X}"}}
    server = read(tmp_path, entry, X="${Y}", EMPTY="")
    assert (server.command, server.args, server.env) == ("run", ("a${Y}b", "", "$X", ""), {"K": "${Y}"})


def test_secrets_are_not_in_what_is_printed(tmp_path: Path) -> None:
    """Neither variables nor headers show where a server is printed."""
    assert "s3cret" not in repr(read(tmp_path, {"command": "x", "env": {"K": "s3cret"}}))
    assert "s3cret" not in repr(read(tmp_path, {"url": "http://a", "headers": {"K": "s3cret"}}))


def test_a_server_that_is_disabled_is_left_out_unread(tmp_path: Path) -> None:
    """What is disabled may lack its variables."""
    assert load(written(tmp_path, {"mcpServers": {"a": {"disabled": True, "command": "${NONE}"}}})) == []


def test_paths_start_at_the_file_never_at_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's project, being the current folder, lends no server its programs or modules."""
    (tmp_path / "config").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    server = read(tmp_path / "config", {"command": "./server"})
    assert (server.command, server.cwd) == (str(tmp_path / "config/server"), tmp_path / "config")
    assert read(tmp_path / "config", {"command": "x", "cwd": "sub"}).cwd == tmp_path / "config/sub"
    assert read(tmp_path / "config", {"command": "~/x"}).command == str(Path.home() / "x")


def test_the_current_folder_is_not_looked_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name only the person's own file counts, and it need not be there."""
    for name in ("mcp.json", ".mcp.json"):
        written(tmp_path, {"mcpServers": {"evil": {"command": "evil"}}}, name=name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    assert load() == []
    config_file().parent.mkdir(parents=True)
    written(config_file().parent, {"mcpServers": {"mine": {"command": "x"}}})
    assert [server.name for server in load()] == ["mine"]


def test_capabilities_of_all_tools_or_by_tool(tmp_path: Path) -> None:
    """A list is of every tool of the server; in a table `*` is."""
    every = read(tmp_path, {"command": "x", "capabilities": ["Web:Search"]})
    assert every.capabilities_of("any") == {"web:search"}
    some = read(tmp_path, {"command": "x", "capabilities": {"a": ["file:read"], "*": ["file:list"]}})
    assert (some.capabilities_of("a"), some.capabilities_of("b")) == ({"file:read", "file:list"}, {"file:list"})


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ('{"mcpServers": {\n  "a" 1}}', r"mcp.json, line 2, column 7: Expecting ':' delimiter\."),
        ("[]", r"mcp.json must be a table with the key mcpServers\."),
        ("{}", r"mcp.json has no key mcpServers\."),
        ('{"mcpServers": {"a": {}, "a": {}}}', "has 'a' twice in one table"),
        ('{"mcpServers": []}', "mcpServers must be a table of servers by name"),
        ("[" * 100_000, "mcp.json is nested too deeply"),
    ],
    ids=["syntax", "list", "empty", "twice", "kind", "depth"],
)
def test_a_wrong_file_is_one_sentence_with_its_place(tmp_path: Path, content: str, place: str) -> None:
    """Whoever wrote the file reads where it is wrong."""
    with pytest.raises(UsageError, match=place) as caught:
        load(written(tmp_path, content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        ("x", "mcpServers.one must be a table"),
        ({}, "mcpServers.one needs either a command or a url"),
        ({"command": "x", "url": "http://a"}, "mcpServers.one needs either a command or a url"),
        ({"command": ""}, "mcpServers.one.command is empty"),
        ({"command": ["x"]}, "mcpServers.one.command must be a string"),
        ({"command": "x", "args": "y"}, "mcpServers.one.args must be a list of strings"),
        ({"command": "x", "args": ["y", {}]}, r"mcpServers.one.args\[1\] must be a string"),
        ({"command": "x", "args": ["\0"]}, r"mcpServers.one.args\[0\] has a NUL character"),
        ({"command": "x", "env": {"A": None}}, "mcpServers.one.env.A must be a string"),
        ({"command": "x", "env": {"A": "${B}"}}, "mcpServers.one.env.A needs the variable B, which is not set"),
        ({"command": "${input:key}"}, r"mcpServers.one.command uses \$\{input:key\}, which only other programs know"),
        ({"command": "x", "type": "http"}, "mcpServers.one.type is http, which goes with a url"),
        ({"command": "x", "type": "ws"}, "mcpServers.one.type must be stdio, http or sse"),
        ({"url": "file:///etc/passwd"}, "mcpServers.one.url must begin with http:// or https://"),
        ({"url": "http://a", "headers": []}, "mcpServers.one.headers must be a table of strings"),
        ({"command": "x", "capabilities": {"a": "b:c"}}, "mcpServers.one.capabilities.a must be a list"),
        ({"command": "x", "timeoutSeconds": 0}, "mcpServers.one.timeoutSeconds must be a number of seconds"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_wrong_entry_is_one_sentence_with_its_place(tmp_path: Path, entry: Any, place: str) -> None:
    """The error names the file, the server and the key."""
    with pytest.raises(UsageError, match=rf"mcp.json: {place}"):
        read(tmp_path, entry)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A file that is missing, binary or huge is told as such."""
    with pytest.raises(UsageError, match=r"can't be read from .*none.json: No such file"):
        load(tmp_path / "none.json")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not UTF-8"):
        load(tmp_path / "binary")
    (tmp_path / "huge").write_text(" " * 2_000_000)
    with pytest.raises(UsageError, match="is larger than 1024 KB"):
        load(tmp_path / "huge")


def test_a_file_that_anybody_may_write_is_refused(tmp_path: Path) -> None:
    """Its commands would run as the person who reads it."""
    file = written(tmp_path, {"mcpServers": {}})
    file.chmod(0o666)
    with pytest.raises(UsageError, match=r"Anybody .* may write to .*chmod o-w"):
        load(file)


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    """As editors on other systems write it."""
    assert load(written(tmp_path, '\ufeff{"mcpServers": {}}')) == []
