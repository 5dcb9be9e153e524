"""The pages: every relative link leads to what a checkout has, and to a heading that is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path, PurePosixPath

import pytest

PAGES = (
    "README.md",
    "bench/README.md",
    "knowledge/README.md",
    "llm_stages/README.md",
    "tests/traps/README.md",
)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^()\s]+)\)")


def links(text: str) -> list[str]:
    """Targets of the relative links of a page, in order."""
    found = _LINK.findall(_FENCED.sub("", text))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(text: str) -> set[str]:
    """What a heading is called in a link: lower case, hyphens, no punctuation."""
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def resolved(page: PurePosixPath, path: str) -> str:
    """The path of a link's target from the top of the checkout."""
    parts: list[str] = []
    for part in (page.parent / path).parts:
        if part == ".." and parts:
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def broken(page: str, text: str, tracked: dict[str, Path]) -> list[str]:
    """The links of a page that lead nowhere."""
    folders = {str(folder) for name in tracked for folder in PurePosixPath(name).parents}
    wrong: list[str] = []
    for link in links(text):
        path, _, anchor = link.partition("#")
        name = resolved(PurePosixPath(page), path) if path else page
        known = name in tracked or name in folders
        if not known or (anchor and anchor not in anchors(tracked[name].read_text("utf-8"))):
            wrong.append(link)
    return wrong


@pytest.fixture(scope="module")
def tracked(repository: Path) -> dict[str, Path]:
    """The files that git has, by path."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=True
    )
    return {name: repository / name for name in listed.stdout.split("\0") if name}


def test_every_link_leads_somewhere(tracked: dict[str, Path]) -> None:
    pages = [*PAGES, *(name for name in tracked if re.fullmatch(r"docs/[^/]+\.md", name))]
    texts = {page: tracked[page].read_text("utf-8") for page in pages}
    assert sum(len(links(text)) for text in texts.values()) >= 30
    wrong = {page: broken(page, text, tracked) for page, text in texts.items()}
    assert {page: found for page, found in wrong.items() if found} == {}


def test_a_link_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("# The `a` page, told\n\n```\n# no heading\n[x](nothing.md)\n```\n")
    tracked = {"docs/a.md": page, "bench/x/y.py": tmp_path / "y.py"}
    good = "[1](a.md#the-a-page-told) ![2](../bench/x/y.py) [3](../bench/x) [4](https://x.org/y)"
    assert links(good) == ["a.md#the-a-page-told", "../bench/x/y.py", "../bench/x"]
    assert broken("docs/b.md", good, tracked) == []
    bad = "[1](b.md) [2](a.md#no-heading) [3](bench/x)\nand [4](../a.md)"
    assert broken("docs/c.md", bad, tracked) == ["b.md", "a.md#no-heading", "bench/x", "../a.md"]
