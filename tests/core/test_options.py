"""What options there are, where they come from, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from nbagent import Session
from nbagent.core import options, settings
from nbagent.core.budget import Budget
from nbagent.core.errors import UsageError
from nbagent.core.limits import Limits
from nbagent.core.options import Keywords, Options
from nbagent.core.policy import InstallPolicy, TrustLevel
from nbagent.sandbox.spec import ACCEPTABLE


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty configuration folder, and another one to stand in."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "nbagent").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "config" / "nbagent"


def write(text: str) -> None:
    """Write the settings file."""
    settings.config_file().write_text(text)


def test_without_any_setting_the_defaults_are_safe() -> None:
    """Nobody who sets nothing gets less than isolation, and installs are bounded by the release's age."""
    found = settings.load()
    assert (found.engine, found.model, found.trust, found.accept) == (None, None, "isolated", [])
    assert found.install_policy == InstallPolicy(enabled=True, min_age_days=3.0)


def test_the_file_is_read() -> None:
    """What stands in config.toml holds."""
    write('engine = "docker"\nmemory_mb = 4096\ninstall_deny = ["leftpad"]\ninstall = false\n')
    found = settings.load()
    assert (found.engine, found.memory_mb) == ("docker", 4096)
    assert found.install_policy == InstallPolicy(enabled=False, deny=frozenset({"leftpad"}))


def test_the_environment_wins_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable replaces what the file says, and only that."""
    write('engine = "docker"\ntimeout = 5\n')
    monkeypatch.setenv("NBAGENT_ENGINE", "bubblewrap")
    monkeypatch.setenv("NBAGENT_ACCEPT", '["memory"]')
    found = settings.load()
    assert (found.engine, found.timeout, found.accept) == ("bubblewrap", 5, ["memory"])


def test_a_setting_is_a_security_option_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has a setting of its own stands beside the options of the table."""
    write("memory_mb = 400\n[security]\nupload_mb = 5\nmemory_limit_mb = 300\n")
    monkeypatch.setenv("NBAGENT_SECURITY", '{"allow_shell": false}')
    assert settings.load().security_options == {"memory_limit_mb": 400, "upload_mb": 5, "allow_shell": False}


@pytest.mark.parametrize("name", [".env", "config.toml", "nbagent.toml", ".nbagent.toml", "pyproject.toml"])
def test_nothing_is_read_from_the_current_folder(name: str) -> None:
    """A project of somebody else's can't weaken the sandbox that it will run in."""
    Path(name).write_text('NBAGENT_TRUST=trusted\ntrust = "trusted"\n[tool.nbagent]\ntrust = "trusted"\n')
    assert settings.load().trust == "isolated"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('timeout = "soon"', "timeout"),
        ("memory_mb = [1]", "memory_mb"),
        ("engine = docker", "Invalid value"),
        ('trsut = "untrusted"', "trsut"),
        ('restore = "again"', "restore"),
        ("keep_minutes = inf", "keep_minutes"),
        ("\0", "Invalid statement"),
    ],
)
def test_a_wrong_file_is_told_by_name(text: str, says: str) -> None:
    """A value of the wrong kind, a broken file and a misspelt setting are refused, not passed over."""
    write(text)
    with pytest.raises(UsageError) as caught:
        settings.load()
    assert says in caught.value.message
    assert "config.toml" in str(caught.value)


def test_a_file_that_is_not_utf8_is_told() -> None:
    """A settings file in another encoding is a sentence."""
    settings.config_file().write_bytes(b'engine = "\xff"')
    with pytest.raises(UsageError, match="can't be read"):
        settings.load()


def test_a_folder_in_the_files_place_is_no_trouble() -> None:
    """What can't be a settings file is either passed over or told."""
    settings.config_file().mkdir()
    try:
        assert settings.load().trust == "isolated"
    except UsageError as error:
        assert "config.toml" in str(error)  # noqa: PT017 - either is right


@pytest.mark.parametrize(
    ("name", "value"), [("NBAGENT_TIMEOUT", "soon"), ("NBAGENT_MEMORY_MB", "2GB"), ("NBAGENT_POOL_SIZE", "{1")]
)
def test_a_wrong_variable_is_told_by_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """The message names the setting, and where it can have come from."""
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as caught:
        settings.load()
    assert name.removeprefix("NBAGENT_").lower() in caught.value.message
    assert "NBAGENT_" in caught.value.mend


@pytest.mark.parametrize("text", ["leftpad, other", '["leftpad", "other"]', "leftpad,other,"])
def test_a_list_in_the_environment_is_plain_words(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """With commas between them, or JSON; a switch is said in words, too."""
    monkeypatch.setenv("NBAGENT_INSTALL_DENY", text)
    monkeypatch.setenv("NBAGENT_FORGE", "yes")
    monkeypatch.setenv("NBAGENT_INSTALL", "off")
    found = settings.load()
    assert (found.install_deny, found.forge, found.install) == (["leftpad", "other"], True, False)
    monkeypatch.setenv("NBAGENT_INSTALL", "perhaps")
    with pytest.raises(UsageError, match="`bool`, got `str`"):  # a list would be nothing that anybody wrote
        settings.load()


def test_a_variable_that_is_no_setting_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt one may have been meant to make the sandbox stricter; the one that was meant is named."""
    monkeypatch.setenv("NBAGENT_TIMOUT", "3")
    with pytest.raises(UsageError, match=r"no setting 'NBAGENT_TIMOUT'. Did you mean NBAGENT_TIMEOUT\?"):
        settings.load()
    monkeypatch.delenv("NBAGENT_TIMOUT")
    monkeypatch.setenv("NBAGENT_DATA", "sales.csv")
    with pytest.raises(UsageError, match="NBAGENT_DATA"):
        settings.load()


def test_a_wrong_budget_is_told_as_the_settings_own() -> None:
    """A person looks for it in the right place."""
    write('budget = "5"\n')
    with pytest.raises(UsageError, match=r"The setting budget is wrong. '5' is no part of a budget"):
        settings.load(budget="10min")


def test_each_option_of_a_session_can_be_given_as_a_keyword_and_each_says_what_it_is() -> None:
    """`Keywords` is for type checkers, and would otherwise fall behind."""
    settings_alone = {"client_data", "client_output", "pool_size", "pool_minutes", "pool_imports", "mcp_token"}
    assert set(Keywords.__annotations__) | settings_alone == set(options.fields()) == set(Options.__struct_fields__)


def test_a_resumed_session_takes_every_option_but_those_of_its_sandbox() -> None:
    """What isn't kept with the sandbox comes from the settings then, so who gave it must be able to give it again."""
    kept = set(
        "data plain_names engine trust timeout start_timeout memory_mb cpus accept docker_runtime kernel".split()
    )
    kept |= set("image session_mb result_mb limits security keep_minutes background".split())
    kept |= set("allow_hosts upload_mb download_mb unknown_names install_mb install install_allow".split())
    kept |= {"install_deny", "install_min_age_days"}
    assert {name for name in Keywords.__annotations__ if not options.declared(name).resumed} == kept


@pytest.mark.parametrize("name", sorted(set(options.fields()) - set(Keywords.__annotations__)))
def test_a_setting_that_no_session_reads_is_refused_as_its_keyword(name: str) -> None:
    """It would otherwise be taken, and do nothing."""
    with pytest.raises(UsageError, match=f"The option {name} is a setting") as refused:
        Session(**{name: getattr(Options(), name) or 1})
    assert f"NBAGENT_{name.upper()}" in refused.value.mend
    assert all(option.description.endswith(".") for _, option in options.fields().values())


def test_what_is_given_comes_before_the_settings() -> None:
    """None stands for what isn't given; rules, limits that may stay unenforced and security options add up."""
    write('trust = "untrusted"\naccept = ["pids"]\nallow = ["cell"]\n[security]\nallow_shell = false\n')
    found = settings.load(
        trust=None, model="openai:x", accept=["cpu"], allow=["install:polars"], security={"upload_mb": 1}
    )
    assert (found.trust, found.model, found.accept) == ("untrusted", "openai:x", ["pids", "cpu"])
    assert (found.allow, found.security) == (["cell", "install:polars"], {"allow_shell": False, "upload_mb": 1})


def test_a_security_option_overrules_the_setting_of_its_other_name() -> None:
    """`memory_mb` and `memory_limit_mb` are one thing, and the nearer one of them holds."""
    write("memory_mb = 400\n")
    assert settings.load(security={"memory_limit_mb": 300}).security_options == {"memory_limit_mb": 300}
    assert settings.load(memory_mb=500).security_options == {"memory_limit_mb": 500}


def test_an_option_that_is_not_there_is_told_with_the_nearest() -> None:
    """A misspelt keyword is no traceback."""
    with pytest.raises(UsageError, match="no option 'modle'") as caught:
        settings.override(Options(), modle="openai:x")  # type: ignore[call-arg]
    assert "model" in caught.value.mend


def test_a_keyword_of_the_wrong_kind_is_told_by_name_for_each_option() -> None:
    for name in options.fields():
        for value in (object(), {1: object()}):
            with pytest.raises(UsageError) as caught:
                settings.override(Options(), **{name: value})  # type: ignore[arg-type]
            assert name in caught.value.message
            assert caught.value.mend


@pytest.mark.parametrize(
    ("name", "value", "mend"),
    [
        ("budget", {"money": 1}, "0.50usd"),
        ("limits", {"memory_mb": 300}, "nbagent.Limits("),
        ("restore", "rewind", "Use one of: replay, nothing."),
        ("timeout", float("nan"), "Seconds"),
        ("max_attempts", 0, "How many"),
    ],
)
def test_a_wrong_keyword_is_told_with_the_mend(name: str, value: object, mend: str) -> None:
    with pytest.raises(UsageError) as caught:
        settings.override(Options(), **{name: value})  # type: ignore[arg-type]
    assert mend in caught.value.mend


def test_options_that_a_program_made_are_checked_too() -> None:
    with pytest.raises(UsageError, match="restore can't be 'rewind'"):
        settings.override(Options(restore="rewind"))  # type: ignore[arg-type]


def test_a_keyword_may_be_an_enumeration() -> None:
    assert settings.override(Options(), trust=TrustLevel.UNTRUSTED).trust == "untrusted"


def test_options_travel_as_json() -> None:
    """Another process gets the same ones."""
    found = settings.override(
        Options(),
        data={"sales": Path("a.csv")},
        limits=Limits(memory_mb=300),
        budget=Budget(money=1),
        mcp=False,
        max_attempts=2,
    )
    assert found.data == {"sales": "a.csv"}
    assert msgspec.json.decode(msgspec.json.encode(found), type=Options) == found


def test_a_password_in_a_url_is_not_shown() -> None:
    """Options stand in logs and tracebacks."""
    assert "secret" not in repr(Options(state_url="postgresql://me:secret@host/db"))


def test_the_help_of_accept_names_every_limit_that_can_be_accepted() -> None:
    """A limit that `SandboxSpec` takes stands in the flag's description."""
    assert (
        options.declared("accept").description
        == f"A limit that may stay unenforced: {', '.join(ACCEPTABLE[:-1])} or {ACCEPTABLE[-1]}."
    )


def test_an_option_has_a_flag_where_it_has_a_group() -> None:
    """A flag outside of every group would belong to no command, and a group without a flag to no option."""
    for name, (_, option) in options.fields().items():
        assert bool(option.flags) == bool(option.group), name
