"""Settings: which source wins, what is refused, and that a key is never shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from xesmith.errors import UsageError
from xesmith.lm.budget import Limits
from xesmith.lm.settings import ENVIRONMENT, LmSettings, load_settings, load_sourced


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration file that only its owner can read; empty at first."""
    path = tmp_path / "config.yaml"
    path.touch(mode=0o600)
    monkeypatch.setenv("XESMITH_CONFIG", str(path))
    return path


def test_flags_win_over_the_environment_and_that_over_the_file(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text("lm:\n  model: of/file\n  retries: 7\n  timeout_s: 10\n  api: responses\n")
    monkeypatch.setenv("XESMITH_LM", "of/environment")
    monkeypatch.setenv("XESMITH_LM_TIMEOUT_S", "20")
    found = load_sourced({"timeout_s": 30.0, "api": None})
    settings = found.settings
    assert (settings.timeout_s, settings.model) == (30, "of/environment")
    assert (settings.retries, settings.api) == (7, "responses")
    assert found.sources == {
        "timeout_s": "--lm-timeout",
        "model": "XESMITH_LM",
        "retries": f"{config}: lm.retries",
        "api": f"{config}: lm.api",
    }


def test_the_budget_is_a_section_of_the_file(config: Path) -> None:
    config.write_text("lm: {model: a/b, budget: {tokens: 1000, usd: 0.5, seconds: 60}}\n")
    assert load_settings({"budget_tokens": 2000}).limits == Limits(2000, 0.5, 60)


def test_without_a_model_one_error_says_how_to_give_one() -> None:
    with pytest.raises(UsageError, match="no model is given") as told:
        load_settings()
    assert all(way in str(told.value.remedy) for way in ("--lm ", "XESMITH_LM", "lm.model"))


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("lm: {modle: a/b}", "unknown setting 'modle'", "did you mean 'model'?"),
        ("lm: {model: a/b, retrys: 1}", "unknown setting 'retrys'", "did you mean 'retries'?"),
        ("lm: {model: a/b, budget: {token: 1}}", "'budget.token'", "did you mean 'tokens'?"),
        ("ml: {model: a/b}", "unknown section 'ml'", "did you mean 'lm'?"),
        ("lm: {model: a/b, retries: -1}", "'retries' is wrong", ""),
        ("lm: {model: a/b, base_url: localhost}", "'base_url' is wrong", ""),
        ("lm: {model: a/b, base_url: 'http://me:word@host/v1'}", "'base_url' is wrong", ""),
        ("lm: {model: a/b, base_url: 'http://host/v1?key=word'}", "'base_url' is wrong", ""),
        ("lm: {model: a/b, api: chatty}", "'api' is wrong", ""),
        ("lm: [", "not YAML", ""),
        ("lm: 3", "names with values", ""),
    ],
)
def test_a_wrong_file_is_one_clear_error(config: Path, text: str, what: str, hint: str) -> None:
    config.write_text(text)
    with pytest.raises(UsageError, match=what) as told:
        load_settings()
    assert hint in str(told.value.remedy)
    assert str(config) in str(told.value.where)


def test_an_unknown_variable_names_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XESMITH_LM_BASE", "http://x/v1")
    with pytest.raises(UsageError, match="XESMITH_LM_BASE") as told:
        load_settings({"model": "a/b"})
    assert "did you mean 'XESMITH_LM_BASE_URL'?" in str(told.value.remedy)


def test_a_missing_file_that_was_named_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XESMITH_CONFIG", "/nowhere/config.yaml")
    with pytest.raises(UsageError, match="no such configuration file"):
        load_settings({"model": "a/b"})


def test_a_key_in_a_file_that_others_can_read_is_refused(config: Path, key: str) -> None:
    config.write_text(f"lm: {{model: a/b, key: {key}}}\n")
    assert load_settings().secret() == key
    config.chmod(0o640)
    with pytest.raises(UsageError, match="can be read by others") as told:
        load_settings()
    assert "chmod 600" in str(told.value.remedy)
    assert key not in str(told.value)


def test_a_key_is_never_shown(monkeypatch: pytest.MonkeyPatch, config: Path, key: str) -> None:
    monkeypatch.setenv("XESMITH_LM_API_KEY", key)
    settings = load_settings({"model": "a/b"})
    shown = [repr(settings), str(settings), str(settings.shown()), settings.model_dump_json()]
    assert settings.secret() == key
    assert [text for text in shown if key in text] == []
    config.write_text(f"lm: {{model: a/b, key: [{key}\n")
    with pytest.raises(UsageError) as told:
        load_settings()
    assert key not in str(told.value)


def test_a_key_may_stand_in_another_variable(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    settings = LmSettings(model="a/b", key_variable="MY_KEY")
    with pytest.raises(UsageError, match="MY_KEY"):
        settings.secret()
    monkeypatch.setenv("MY_KEY", key)
    assert settings.secret() == key


def test_the_source_of_the_key_is_replaced_whole(
    monkeypatch: pytest.MonkeyPatch, config: Path, key: str
) -> None:
    config.write_text("lm: {model: a/b, key: a-key-of-the-file}\n")
    monkeypatch.setenv("MY_KEY", key)
    monkeypatch.setenv("XESMITH_LM_KEY_VARIABLE", "MY_KEY")
    assert load_settings().secret() == key


def test_every_variable_sets_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    values: dict[str, Any] = dict.fromkeys(ENVIRONMENT, "1")
    values |= {"XESMITH_LM_BASE_URL": "http://x/v1", "XESMITH_LM_API": "chat"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert set(ENVIRONMENT.values()) == set(LmSettings.model_fields)
    assert load_settings().model_fields_set == set(LmSettings.model_fields)


def test_litellm_is_not_imported_before_the_first_request() -> None:
    script = (
        "import sys; from xesmith.lm.endpoint import EndpointChannel as E\n"
        "from xesmith.lm.settings import LmSettings as S; E(S(model='a/b'))\n"
        "print([name for name in ('litellm', 'openai', 'httpx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr
