"""Naming, opening and finding a model."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent.stub import Kernel, Provider, Say, answer
from agent.stubs import ollama as ollama_format
from agent.stubs.transport import Stub

from nbagent.agent.build import build_agent
from nbagent.agent.providers import models
from nbagent.agent.providers.models import PROVIDERS, check_name, find_model, open_model
from nbagent.core.errors import ModelError, ReplayError, StoreError


@pytest.fixture
def ollama(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """An Ollama on loopback."""
    with Stub(ollama_format) as stub:
        monkeypatch.setenv("OLLAMA_HOST", stub.url.removeprefix("http://"))
        yield stub


@pytest.mark.parametrize("name", ["gpt-5", "", "openai:", ":gpt", "  "])
def test_a_name_without_its_form(name: str) -> None:
    """It says which form a name has, and lists providers."""
    with pytest.raises(ModelError, match=r"PROVIDER:MODEL, or replay:FILE.*anthropic, openai") as caught:
        check_name(name)
    assert caught.value.exit_code == 2


def test_an_unknown_provider() -> None:
    """It lists those that LangChain knows, beside our own."""
    with pytest.raises(ModelError, match=r"no provider 'acme'.*anthropic.*bedrock.*ollama"):
        check_name("acme:model")


def test_a_missing_extra_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mend is the command that installs it."""
    monkeypatch.setitem(PROVIDERS, "groq", PROVIDERS["groq"]._replace(module="langchain_groq_is_missing"))
    with pytest.raises(ModelError, match=r"pip install 'nbagent\[groq\]'"):
        check_name("groq:llama")


def test_a_provider_that_only_langchain_knows() -> None:
    """The mend names LangChain's own distribution."""
    with pytest.raises(ModelError, match="pip install langchain-upstage"):
        check_name("upstage:solar")


@pytest.mark.parametrize(("name", "key"), [("openai:m", "OPENAI_API_KEY"), ("anthropic:m", "ANTHROPIC_API_KEY")])
def test_a_missing_key(name: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found before any call, and names the variable; an empty one is none."""
    monkeypatch.setenv(key, "")
    with pytest.raises(ModelError, match=rf"Set {key}\."):
        check_name(name)
    monkeypatch.setenv(key, "k")
    assert check_name(name) == tuple(name.split(":"))


def test_an_address_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of one's own has an address and often no key."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert check_name("openai:qwen3:8b") == ("openai", "qwen3:8b")


def test_checking_a_name_imports_no_langchain() -> None:
    """A face can check a name at once: LangChain takes a second to import."""
    code = (
        "import sys; from nbagent.agent.providers.models import check_name\n"
        "check_name('replay:x'); check_name('openai:x')\n"
        "sys.exit(any(name.startswith(('langchain', 'langgraph', 'openai', 'pydantic')) for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"OPENAI_API_KEY": "k"})


async def test_openai_compatible_address(provider: Provider, kernel: Kernel) -> None:
    """It is spoken to by chat completions, streamed, with usage asked for."""
    model = open_model("openai:gpt-5-pro")
    assert (model.name, model.is_replay, model.recorder) == ("openai:gpt-5-pro", False, None)
    provider.say(Say(text="hi"))
    await answer(build_agent(model, kernel, system_prompt="s"), "q", turn=1)
    request = provider.requests[0]
    assert (request["model"], request["stream"]) == ("gpt-5-pro", True)
    assert request["stream_options"] == {"include_usage": True}
    await model.aclose()
    assert model.chat.root_async_client.is_closed()  # type: ignore[attr-defined]  # ChatOpenAI's own


def test_each_model_has_connections_of_its_own(provider: Provider) -> None:
    """Two models never share a client: it belongs to one event loop."""
    assert provider.url
    one, two = open_model("openai:m"), open_model("openai:m")
    clients = [model.chat.root_async_client._client for model in (one, two)]  # type: ignore[attr-defined]  # as above
    assert clients[0] is not clients[1]


def test_anthropic_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a key, Claude is opened without a call, streams, and takes figures in results."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    model = open_model("anthropic:claude-sonnet-5")
    assert (model.name, model.images) == ("anthropic:claude-sonnet-5", "in results")
    assert getattr(model.chat, "streaming", None) is True


def test_settings_that_a_provider_rejects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the integration raises becomes one line."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setattr(models, "options", lambda _: {"temperature": "hot"})
    with pytest.raises(ModelError, match=r"openai:m can't be opened: .*temperature") as caught:
        open_model("openai:m")
    assert "\n" not in str(caught.value)


def test_a_replay(tmp_path: Path) -> None:
    """It is labelled as one, by the name of its file without the folder, and sees no figures."""
    file = tmp_path / "r.jsonl"
    file.write_text('{"content": "hi"}\n')
    model = open_model(f"replay:{file}")
    assert (model.name, model.is_replay, model.images) == ("replay:r.jsonl", True, "no")


def test_a_replay_that_is_not_there() -> None:
    """The error is the replay's, found at once."""
    with pytest.raises(ReplayError, match="no such file"):
        open_model("replay:/nowhere/r.jsonl")


def test_a_replay_is_not_recorded_over(tmp_path: Path) -> None:
    """`--record` into the file that is replayed is refused before anything is lost."""
    file = tmp_path / "r.jsonl"
    file.write_text('{"content": "hi"}\n')
    with pytest.raises(StoreError, match="exists already"):
        open_model(f"replay:{file}", record=file)
    assert file.read_text() == '{"content": "hi"}\n'


def test_an_address_without_a_model(provider: Provider) -> None:
    """A server of one's own is asked: what it serves alone is taken, of several the person names one."""
    provider.models = ["acme-8b", "text-embedding-acme"]
    assert find_model() == "openai:acme-8b"
    provider.models = ["acme-8b", "acme-70b"]
    with pytest.raises(ModelError, match=r"http://127\.0\.0\.1:\d+/v1 leads to several\. Name one.*acme-8b, acme-70b"):
        find_model()
    provider.models = []
    with pytest.raises(ModelError, match="leads to none"):
        find_model()


def test_an_address_where_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what was tried, and that a name would do."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(ModelError, match=r"127\.0\.0\.1:9/v1, openai was asked.*can't be reached.*as openai:MODEL"):
        find_model()


def test_found_in_ollama(ollama: Stub) -> None:
    """Without a key, the model that a local Ollama changed last is taken, but none for embeddings."""
    ollama.models = ["nomic-embed-text", "qwen3:8b", "old"]
    assert find_model() == "ollama:qwen3:8b"


def test_an_ollama_of_another_user_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any user of a machine can listen where Ollama does, and would be sent everything."""
    listen = (
        "import os, socket, sys; os.setgroups([]); os.setresgid(*[65534] * 3); os.setresuid(*[65534] * 3)\n"
        "tried = socket.create_server(('127.0.0.1', 0)); print(tried.getsockname()[1], flush=True); sys.stdin.read()"
    )
    program = [sys.executable, "-c", listen]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stranger:
        assert stranger.stdin is not None
        assert stranger.stdout is not None
        monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{stranger.stdout.readline().strip()}")
        with pytest.raises(ModelError, match="another user of this machine, nobody"):
            find_model()
        stranger.stdin.close()


def test_an_ollama_whose_models_call_no_tools(ollama: Stub) -> None:
    """None is taken, and one that is named is refused before a question is asked in vain."""
    ollama.models, ollama.abilities = ["poet"], ["completion"]
    with pytest.raises(ModelError, match="none was found"):
        find_model()
    with pytest.raises(ModelError, match=r"'poet' can't call tools"):
        open_model("ollama:poet")


def test_a_model_that_ollama_has_not(ollama: Stub) -> None:
    """The error names those that it has, and how to fetch this one."""
    ollama.models = ["qwen3:8b", "gpt-oss:20b"]
    with pytest.raises(
        ModelError, match=r"no model 'qwen3:32b'\. It has: qwen3:8b, gpt-oss:20b\. Run: ollama pull qwen3:32b"
    ):
        open_model("ollama:qwen3:32b")


def test_an_ollama_without_eyes(ollama: Stub) -> None:
    """Ollama itself says what its models can, also of those that nobody else has heard of."""
    ollama.models = ["acme"]
    assert open_model("ollama:acme").images == "after results"
    for ollama.abilities in (["completion", "tools"], []):
        assert open_model("ollama:acme").images == "no"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"models": null}', b'{"models": [1]}', b'{"models": []}'])
def test_something_else_on_ollamas_port(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    """It is taken for no Ollama."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        with pytest.raises(ModelError, match="none was found"):
            find_model()
        server.shutdown()
        thread.join()


def test_none_found() -> None:
    """The error says the three ways out."""
    with pytest.raises(ModelError, match=r"OPENAI_API_KEY.*Ollama.*replay:FILE"):
        find_model()


def test_a_key_whose_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says that the key was seen, and what it needs."""
    monkeypatch.setenv("GROQ_API_KEY", "k")
    monkeypatch.setitem(PROVIDERS, "groq", PROVIDERS["groq"]._replace(module="langchain_groq_is_missing"))
    with pytest.raises(ModelError, match=r"GROQ_API_KEY is set; for it, run: pip install 'nbagent\[groq\]'"):
        find_model()
