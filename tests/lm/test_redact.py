"""Secrets never leave in a prompt and never come back in a reply."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest

from xesmith.lm.record import Message, Request
from xesmith.lm.redact import Redactor, environment_secrets

SECRET = "s3cret/of+the=house"


@pytest.mark.parametrize(
    "form",
    [SECRET, quote(SECRET, safe=""), base64.b64encode(SECRET.encode()).decode()],
    ids=["plain", "percent-encoded", "base64"],
)
def test_the_key_is_replaced_in_each_form(form: str) -> None:
    assert Redactor([SECRET], {}).text(f"a {form} b") == "a [redacted] b"


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "GITHUB_TOKEN", "MY_SECRET", "DB_PASSWORD", "aws_secret_access_key"]
)
def test_variables_that_speak_of_secrets_are_secret(name: str) -> None:
    assert Redactor([], {name: SECRET}).text(f"x={SECRET}") == "x=[redacted]"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOME", "/home/someone"),
        ("XESMITH_LM_KEY_VARIABLE", "OPENAI_API_KEY"),
        ("SSL_KEY_FILE", "/etc/ssl/key.pem"),
        ("GOOGLE_APPLICATION_CREDENTIALS", __file__),
        ("KEYBOARD", "de-latin1-nodeadkeys"),
    ],
)
def test_other_variables_are_not(name: str, value: str) -> None:
    assert environment_secrets({name: value}) == set()


def test_short_values_are_words() -> None:
    assert Redactor(["none"], {"API_KEY": "EMPTY"}).text("none EMPTY") == "none EMPTY"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abcdefgh12345", "Authorization: Bearer [redacted]"),
        ('{"authorization": "Basic dXNlcjpwYXNz"}', '{"authorization": "Basic [redacted]"}'),
        ("api_key = 'abcdefghijklmnop'", "api_key = '[redacted]'"),
        ("sk-proj-0123456789abcdefgh!", "[redacted]!"),
        ("AKIA0123456789ABCDEF", "[redacted]"),
    ],
)
def test_what_has_the_form_of_a_credential_is_replaced(text: str, clean: str) -> None:
    assert Redactor([], {}).text(text) == clean


@pytest.mark.parametrize(
    "code",
    [
        "acc = tl.dot(a, b, acc)\nkey = k_ptr + offs_key[None, :] * stride_key\n",
        "task-0123456789abcdefghij risk-assessment-of-all-things\n",
        "token = tl.load(token_ptr)  # bearer of the sum\n",
    ],
)
def test_kernels_are_left_alone(code: str) -> None:
    assert Redactor([SECRET], {}).text(code) == code


def test_a_secret_that_is_cut_off_is_replaced_as_well() -> None:
    redactor = Redactor([SECRET], {})
    assert redactor.text(f"it is {SECRET[:10]}") == "it is [redacted]"
    assert redactor.text(f"it is {SECRET[:7]}") == f"it is {SECRET[:7]}"


def test_a_secret_within_another_leaves_nothing() -> None:
    assert Redactor(["abcdefgh", "abcdefghijkl"], {}).text("abcdefghijkl") == "[redacted]"


def test_requests_are_redacted() -> None:
    request = Request("a", (Message("user", f"key {SECRET}"),))
    assert Redactor([SECRET], {}).request(request).messages[0].content == "key [redacted]"
