"""Takes secrets out of text: of prompts before they are sent, of replies before anyone reads them.

What is a secret: the key in use, the value of every environment variable whose name says so,
and whatever has the form of a credential. Values shorter than eight characters cannot be told
from ordinary words ("none", "EMPTY") and are left alone.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from xesmith.lm.record import Message, Reply, Request

REDACTED = "[redacted]"
MIN_SECRET_CHARACTERS = 8

_SECRET_NAME_PARTS = frozenset(
    {"KEY", "KEYS", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS"}
)
#: a name that ends so speaks of where the secret is
_NO_SECRET_ENDS = frozenset({"VARIABLE", "FILE", "PATH", "DIR", "NAME", "URL"})
#: forms of credentials; where a group is named, only that group is the secret
_FORMS = re.compile(
    r"""(?ix)
      \bauthorization ["']? \s* [:=] \s* ["']? (?:(?:bearer|basic|token)\s+)?
        (?P<header>[\w.~+/=-]{8,})
    | \bbearer \s+ (?P<bearer>[\w.~+/=-]{16,})
    | \b(?:x-)?api[-_]?key ["']? \s* [:=] \s* ["']? (?P<key>[\w.~+/=-]{16,})
    | \bsk-[\w-]{16,}
    | \b(?:ghp|gho|ghs|ghu)_[a-z0-9]{30,} | \bgithub_pat_\w{30,} | \bhf_[a-z0-9]{30,}
    | \bAKIA[0-9A-Z]{16}\b
    """
)


def environment_secrets(environment: Mapping[str, str] | None = None) -> set[str]:
    """The values of the variables whose names speak of keys, tokens, secrets or passwords.

    A value that is the path of a file on this machine is none: the file holds the secret.
    """
    environment = os.environ if environment is None else environment
    return {
        value
        for name, value in environment.items()
        if _is_secret_name(name) and not _is_path(value)
    }


def _is_secret_name(name: str) -> bool:
    parts = name.upper().split("_")
    return parts[-1] not in _NO_SECRET_ENDS and not _SECRET_NAME_PARTS.isdisjoint(parts)


def _is_path(value: str) -> bool:
    try:
        return os.sep in value and Path(value).exists()
    except (OSError, ValueError):  # too long for a path, or no path at all
        return False


class Redactor:
    """Replaces secrets by "[redacted]".

    Args:
        secrets: values that are secret whatever they look like, from eight characters on.
        environment: where further secrets are looked for; the process's own by default.
    """

    def __init__(
        self, secrets: Iterable[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        values = {*secrets, *environment_secrets(environment)}
        known = {value for value in values if len(value) >= MIN_SECRET_CHARACTERS}
        encoded = {
            form
            for value in known
            for form in (
                quote(value, safe=""),
                base64.b64encode(value.encode("utf-8", "replace")).decode(),
            )
        }
        # The longest first: a secret may hold another.
        self._secrets = sorted(known | encoded, key=lambda value: (-len(value), value))
        self.longest = len(self._secrets[0]) if self._secrets else 0

    def text(self, text: str) -> str:
        """`text` without secrets; a text cut off inside of one loses that rest as well."""
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        text = _FORMS.sub(_without_secret, text)
        return self._without_started_secret(text)

    def request(self, request: Request) -> Request:
        """The same request with redacted messages."""
        messages = tuple(Message(m.role, self.text(m.content)) for m in request.messages)
        return replace(request, messages=messages)

    def reply(self, reply: Reply) -> Reply:
        """The same reply with redacted text."""
        return replace(reply, text=self.text(reply.text))

    def _without_started_secret(self, text: str) -> str:
        for secret in self._secrets:
            for length in range(min(len(secret) - 1, len(text)), MIN_SECRET_CHARACTERS - 1, -1):
                if text.endswith(secret[:length]):
                    return text[:-length] + REDACTED
        return text


def _without_secret(found: re.Match[str]) -> str:
    for value in found.groupdict().values():
        if value is not None:
            return found.group().replace(value, REDACTED)
    return REDACTED
