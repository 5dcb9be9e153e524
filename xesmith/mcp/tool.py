"""The noun Tool: a name, what it is asked with, what it answers, and the function between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from xesmith.errors import UsageError, nearest
from xesmith.mcp.workbench import Workbench

Say = Callable[[str], None]


class Ask(BaseModel):
    """Arguments of a tool. Unknown ones are errors, since a misspelt one would be lost."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Answer(BaseModel):
    """What a tool answers; lists and texts are bounded where they are made."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class Tool:
    """One tool.

    `work` answers an instance of `ask` with one of `answer`. `compiles`: it needs the workbench,
    so it runs alone; others only read files and answer at once. `writes`: files that are named
    in the arguments.
    """

    name: str
    description: str
    ask: type[Ask]
    answer: type[Answer]
    work: Callable[[Any, Workbench, Say], Answer]
    compiles: bool = False
    writes: bool = False

    def read(self, arguments: dict[str, Any]) -> Ask:
        """The arguments, checked.

        Raises:
            UsageError: an unknown or missing argument, or a value of the wrong type.
            PlanError: a faulty launch plan.
        """
        where = f"tool {self.name}"
        for name in arguments:
            if name not in self.ask.model_fields:
                raise UsageError(
                    f"unknown argument '{name}'",
                    where=where,
                    remedy=nearest(name, self.ask.model_fields),
                )
        try:
            return self.ask.model_validate(arguments)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(step) for step in first["loc"])
            message = first["msg"].removeprefix("Value error, ")
            raise UsageError(
                f"{place}: {message}" if place else message,
                where=where,
                remedy="see the tool's input schema",
            ) from error
