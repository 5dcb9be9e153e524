"""Lays a report out as Markdown and as one HTML file without outside resources."""

from __future__ import annotations

import jinja2
from markupsafe import Markup, escape

from xesmith.report.model import Report, columns
from xesmith.report.tree import objection

_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("xesmith.report", "templates"),
    autoescape=jinja2.select_autoescape(["html.j2"]),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=jinja2.StrictUndefined,
)


def to_markdown(report: Report) -> str:
    return _render("report.md.j2", report)


def to_html(report: Report) -> str:
    return _render("report.html.j2", report)


def _render(template: str, report: Report) -> str:
    return _ENVIRONMENT.get_template(template).render(
        report=report,
        columns=[column.title for column in columns(report.header)],
        objection=objection,
        cell=_cell,
        coded=_coded,
    )


def _coded(text: object) -> Markup:
    """HTML of a text in which code stands between backticks."""
    parts = str(text).split("`")
    if len(parts) % 2 == 0:  # one is left over
        return escape(str(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )


def _cell(text: object) -> str:
    """Text for a cell of a Markdown table."""
    return str(text).replace("|", "\\|").replace("\n", " ")
