"""How a model is reached: flags, then the environment, then the configuration file.

A key is never shown: not in errors, not in `repr`, not in what `xesmith lm show` prints.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from xesmith.errors import UsageError, nearest
from xesmith.lm.budget import Limits

Api = Literal["chat", "responses"]

#: environment variables; the first one and the two after it are those that most users set
ENVIRONMENT: dict[str, str] = {
    "XESMITH_LM": "model",
    "XESMITH_LM_BASE_URL": "base_url",
    "XESMITH_LM_API_KEY": "key",
    "XESMITH_LM_KEY_VARIABLE": "key_variable",
    "XESMITH_LM_API": "api",
    "XESMITH_LM_TIMEOUT_S": "timeout_s",
    "XESMITH_LM_RETRIES": "retries",
    "XESMITH_LM_TEMPERATURE": "temperature",
    "XESMITH_LM_MAX_REPLY_TOKENS": "max_reply_tokens",
    "XESMITH_LM_MAX_REPLY_CHARACTERS": "max_reply_characters",
    "XESMITH_LM_REQUESTS_PER_MINUTE": "requests_per_minute",
    "XESMITH_LM_TOKENS_PER_MINUTE": "tokens_per_minute",
    "XESMITH_LM_BUDGET_TOKENS": "budget_tokens",
    "XESMITH_LM_BUDGET_USD": "budget_usd",
    "XESMITH_LM_BUDGET_SECONDS": "budget_seconds",
}
_PREFIX = "XESMITH_LM"
_SECTION = "lm"
_BUDGET = ("tokens", "usd", "seconds")


class LmSettings(BaseModel):
    """Everything that the endpoint channel needs to know."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    model: str = Field(min_length=1)  # any model id of LiteLLM: "openai/gpt-5", "ollama/qwen3"
    # without user, password or query: those hold secrets, and the address is shown
    base_url: str | None = Field(default=None, pattern=r"^https?://[^\s/@?#]+(/[^\s?#]*)?$")
    api: Api = "chat"
    key: SecretStr | None = None
    key_variable: str | None = None  # the environment variable that holds the key
    timeout_s: float = Field(default=300.0, gt=0)  # of one reply, from the request to its end
    retries: int = Field(default=3, ge=0, le=20)
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_reply_tokens: int = Field(default=16_384, ge=1)
    max_reply_characters: int = Field(default=200_000, ge=1)
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)
    budget_tokens: int | None = Field(default=None, ge=0)
    budget_usd: float | None = Field(default=None, ge=0)
    budget_seconds: float | None = Field(default=None, ge=0)

    @property
    def limits(self) -> Limits:
        """What a run may spend."""
        return Limits(self.budget_tokens, self.budget_usd, self.budget_seconds)

    @property
    def deadline_s(self) -> float:
        """Of one exchange: all its tries and the waits between them."""
        return self.timeout_s * (self.retries + 1)

    def secret(self) -> str | None:
        """The key itself; None leaves it to LiteLLM to find the provider's own variable.

        Raises:
            UsageError: the variable that is to hold it is not set.
        """
        if self.key is not None:
            return self.key.get_secret_value()
        if self.key_variable is None:
            return None
        value = os.environ.get(self.key_variable)
        if not value:
            raise UsageError(
                f"the environment variable {self.key_variable}, which is to hold the key, "
                "is not set",
                where="key_variable",
                remedy=f"export {self.key_variable}=..., or name another variable",
            )
        return value

    def shown(self) -> dict[str, Any]:
        """All settings but the key, of which only whether there is one."""
        values = self.model_dump(mode="json", exclude={"key"})
        return {**values, "key": None if self.key is None else "set"}


@dataclass(frozen=True)
class Sourced:
    """Settings, and for each name that was given the place where: a flag, a variable, a file."""

    settings: LmSettings
    sources: dict[str, str]


def load_settings(overrides: Mapping[str, Any] | None = None) -> LmSettings:
    """The settings in force. `overrides` are what flags gave; None values were not given.

    Raises:
        UsageError: no model is given, a name is unknown, a value is wrong, or the file that
            holds the key can be read by others.
    """
    return load_sourced(overrides).settings


def load_sourced(overrides: Mapping[str, Any] | None = None) -> Sourced:
    """As `load_settings`, with the source of each value."""
    file = config_path()
    layers: list[tuple[Mapping[str, Any], Callable[[str], str]]] = [
        (_from_file(file), lambda name: f"{file}: {_SECTION}.{_dotted(name)}"),
        (_from_environment(), _variable),
        ({k: v for k, v in (overrides or {}).items() if v is not None}, _flag),
    ]
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for layer, source_of in layers:
        if "key" in layer or "key_variable" in layer:  # one of them replaces the other
            for name in ("key", "key_variable"):
                values.pop(name, None)
                sources.pop(name, None)
        for name, value in layer.items():
            values[name], sources[name] = value, source_of(name)
    for name in values:
        if name not in LmSettings.model_fields:
            raise UsageError(
                f"unknown setting '{name}'",
                where=sources[name],
                remedy=nearest(name, LmSettings.model_fields),
            )
    if not values.get("model"):
        raise UsageError(
            "no model is given",
            where="--lm",
            remedy="give one, as LiteLLM names it: --lm openai/gpt-5, or XESMITH_LM in the "
            f"environment, or lm.model in {file}; for a server of your own also --lm-base "
            "http://host:port/v1",
        )
    return Sourced(_validated(values, sources), sources)


def config_path() -> Path:
    """XESMITH_CONFIG, else config.yaml in the user's folder for xesmith's configuration."""
    given = os.environ.get("XESMITH_CONFIG")
    if given:
        return Path(given).expanduser()
    return platformdirs.user_config_path("xesmith", appauthor=False) / "config.yaml"


def _validated(values: dict[str, Any], sources: Mapping[str, str]) -> LmSettings:
    try:
        return LmSettings.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name = str(first["loc"][0])
        raise UsageError(
            f"the setting '{_dotted(name)}' is wrong: {first['msg'].lower()}",
            where=sources.get(name),
        ) from None


def _from_environment() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variable, value in os.environ.items():
        if variable != _PREFIX and not variable.startswith(_PREFIX + "_"):
            continue
        if variable not in ENVIRONMENT:
            raise UsageError(
                f"unknown environment variable {variable}",
                where="environment",
                remedy=nearest(variable, ENVIRONMENT),
            )
        if value:
            found[ENVIRONMENT[variable]] = value
    return found


def _from_file(path: Path) -> dict[str, Any]:
    """The section `lm` of the configuration file, `budget` flattened."""
    import yaml

    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        if os.environ.get("XESMITH_CONFIG"):
            raise UsageError(
                "there is no such configuration file",
                where=f"XESMITH_CONFIG={path}",
                remedy="make it, or unset XESMITH_CONFIG",
            ) from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the configuration file cannot be read: {type(error).__name__}", where=str(path)
        ) from None
    try:
        data: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark: Any = getattr(
            error, "problem_mark", None
        )  # the message quotes the line: a key, maybe
        line = "" if mark is None else f":{mark.line + 1}"
        raise UsageError("the configuration file is not YAML", where=f"{path}{line}") from None
    top = _mapping(data, str(path))
    for name in top:
        if name != _SECTION:
            raise UsageError(
                f"unknown section '{name}'", where=str(path), remedy=nearest(name, [_SECTION])
            )
    found = _mapping(top.get(_SECTION), f"{path}: {_SECTION}")
    if found.get("key") is not None and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(
            "the configuration file holds a key and can be read by others",
            where=str(path),
            remedy=f"chmod 600 {path}, or give the name of a variable as key_variable",
        )
    budget = _mapping(found.pop("budget", None), f"{path}: {_SECTION}.budget")
    for name, value in budget.items():
        if name not in _BUDGET:
            raise UsageError(
                f"unknown setting 'budget.{name}'", where=str(path), remedy=nearest(name, _BUDGET)
            )
        found[f"budget_{name}"] = value
    return {name: value for name, value in found.items() if value is not None}


def _mapping(data: Any, where: str) -> dict[str, Any]:
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise UsageError("names with values are needed here", where=where)
    return {str(name): value for name, value in cast(dict[Any, Any], data).items()}


def _dotted(name: str) -> str:
    return name.replace("budget_", "budget.", 1)


def _variable(name: str) -> str:
    return next(variable for variable, field in ENVIRONMENT.items() if field == name)


#: flags whose names are not those of the setting
_FLAGS = {"model": "--lm", "base_url": "--lm-base", "api": "--lm-api", "timeout_s": "--lm-timeout"}


def _flag(name: str) -> str:
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")
