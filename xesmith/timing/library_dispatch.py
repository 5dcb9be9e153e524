"""A kernel file that calls the vendor's library at the shapes where that was measured faster.

A table of shapes, spliced in after all else of the file, chooses: what was measured on one device
holds for that device alone, and every other call goes to the file's own kernels.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

from xesmith.launch_plan.render import main_guard
from xesmith.timing.contest import KERNEL, Entry, EntryShape

BEGIN = "# >>> xesmith library dispatch >>>"
END = "# <<< xesmith library dispatch <<<"


class NoDispatchError(Exception):
    """Why the file cannot, or need not, choose between its kernels and the library."""


@dataclass(frozen=True)
class Choice:
    """A shape at which the library was faster. `ratio`: library time over kernel time, and its
    interval. `has_its_weights`: the Model took the reference's state_dict there, or has none."""

    shape: EntryShape
    ratio: str
    has_its_weights: bool

    @property
    def key(self) -> tuple[Any, ...]:
        """The Model's inits, and type and sizes of each input, as the generated code sees them."""
        inputs = tuple((x.dtype, tuple(x.shape)) for x in self.shape.inputs or ())
        return (tuple(self.shape.inits or ()), inputs)


def choices_of(entry: Entry, outcomes: Sequence[Mapping[str, Any]]) -> list[Choice]:
    """The shapes of `entry` at which a result says that the library is faster.

    Args:
        outcomes: of a result.json.

    Raises:
        NoDispatchError: the result holds nothing of this kernel, or no such shape.
    """
    if entry.library is None:
        raise NoDispatchError('its reference names no library: it has no LIBRARY = "torch...."')
    own = [outcome for outcome in outcomes if outcome["digest"] == entry.digest]
    if not own:
        raise NoDispatchError(
            f"the result holds no measurement of this '{entry.name}': kernel, reference, spec or "
            "tolerances are others"
        )
    shapes = {shape.label: shape for shape in entry.shapes if shape.inputs is not None}
    found: list[Choice] = []
    for outcome in own:
        judged = outcome["judgements"].get("library")
        shape = shapes.get(outcome["shape"]["label"])
        measurement = outcome["measurement"]
        if not judged or judged["verdict"] != "SLOWER" or shape is None or measurement is None:
            continue
        if judged["ratio"] is not None:
            ratio = "{ratio:.3f}x [{low:.3f}, {high:.3f}]".format(**judged["ratio"])
            weights = measurement["programs"].get(KERNEL, {}).get("weights")
            found.append(Choice(shape, ratio, weights in ("none", "the same state_dict")))
    if not found:
        raise NoDispatchError(f"{entry.library} was measured faster at no shape of '{entry.name}'")
    return found


def with_library(
    entry: Entry, choices: Sequence[Choice], machine: Mapping[str, Any], date: str
) -> str:
    """The entry's kernel file with the table, and the reference's forward for its shapes.

    Args:
        machine: what the choices were measured on, as in a result.json.

    Raises:
        NoDispatchError: the reference's forward needs more than its imports, its arguments and
            attributes that the kernel's Model has too; or the file has a table already.
    """
    for choice in choices:
        try:
            hash(choice.key)
        except TypeError:
            raise NoDispatchError(f"no table can hold the inits of {choice.shape.label}") from None
    if BEGIN in entry.kernel:
        raise NoDispatchError("it chooses already: remove the block first")
    forward, attributes = _library_forward(entry.reference or "")
    missing = sorted(attributes - _own_attributes(entry.kernel))
    if missing:
        raise NoDispatchError(f"its Model has no self.{missing[0]}, which the library's call needs")
    if attributes and not all(choice.has_its_weights for choice in choices):
        raise NoDispatchError("its Model does not take the reference's weights as they are")
    measured = "".join(f"#   {c.shape.label}: {c.ratio}\n" for c in choices)
    table = "".join(f"    {c.key!r},\n" for c in choices)
    torch_version, triton_version = machine.get("torch"), machine.get("triton")
    block = _BLOCK.format(
        begin=BEGIN,
        end=END,
        library=entry.library,
        device=machine["name"],
        versions=f"Triton {triton_version}, torch {torch_version}",
        date=date[:10],
        measured=measured,
        table=table,
        forward=indent(forward, "    "),
    )
    at = main_guard(entry.kernel)
    before, after = entry.kernel[:at], entry.kernel[at:]
    return before + ("" if before.endswith("\n") else "\n") + block + after


def _library_forward(reference: str) -> tuple[str, set[str]]:
    """`forward` of the reference's Model as a function, after the imports that it needs, and the
    attributes of self that it reads."""
    tree = ast.parse(reference)
    method = _method(tree, "forward")
    if method is None:
        raise NoDispatchError("the reference's Model has no forward")
    imports = {
        name.asname or name.name.split(".")[0]: node
        for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in node.names
    }
    arguments = [node for node in ast.walk(method) if isinstance(node, ast.arg)]
    for argument in arguments:
        argument.annotation = None
    method.returns = None
    method.decorator_list.clear()
    names = [node for node in ast.walk(method) if isinstance(node, ast.Name)]
    known = {argument.arg for argument in arguments} | set(dir(builtins))
    known |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
    used = {name.id for name in names} - known
    if unknown := sorted(used - imports.keys()):
        raise NoDispatchError(f"the reference's forward uses '{unknown[0]}' of its own file")
    needed = dict.fromkeys(ast.unparse(node) for name, node in imports.items() if name in used)
    return "\n".join([*needed, ast.unparse(method)]) + "\n", _attributes(method)


def _method(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name == name:
                    return item
    return None


def _attributes(tree: ast.AST) -> set[str]:
    """Names read or written as attributes of self."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def _own_attributes(kernel: str) -> set[str]:
    method = _method(ast.parse(kernel), "__init__")
    return set() if method is None else _attributes(method)


_BLOCK = '''\
{begin}
# Written by xesmith. Model calls {library} at the shapes below, where it was measured faster
# than the kernels of this file; any other call, and any other device, launches those. Remove the
# block to launch them always.
# On {device}, {versions}, {date}: the kernel against the library, with its 95 % interval:
{measured}# fmt: off
_xs_LIBRARY_DEVICE = {device!r}
_xs_LIBRARY_SHAPES = {{  # (inits of the Model, inputs)
{table}}}


def _xs_library():
{forward}
    return forward


def _xs_device_name(device):
    """As the driver calls it; None of a CPU."""
    import torch

    backend = getattr(torch, device.type, None)
    name = getattr(backend, "get_device_name", None)
    return None if device.type == "cpu" or name is None else name(device)


def _xs_choose_library(model, library):
    """Gives the class a forward that looks its call up."""
    original_init, kernels, devices = model.__init__, model.forward, {{}}

    def __init__(self, *inits, **named):
        original_init(self, *inits, **named)
        self._xs_inits = None if named else inits

    def forward(self, *inputs, **named):
        try:
            shapes = tuple((str(x.dtype)[6:], tuple(x.shape)) for x in inputs)
            chosen = not named and (self._xs_inits, shapes) in _xs_LIBRARY_SHAPES
            if chosen:
                device = inputs[0].device
                if device not in devices:
                    devices[device] = _xs_device_name(device)
                chosen = devices[device] == _xs_LIBRARY_DEVICE
        except (AttributeError, IndexError, TypeError):  # a call that no table foresees
            chosen = False
        return (library if chosen else kernels)(self, *inputs, **named)

    model.__init__, model.forward = __init__, forward


_xs_choose_library(Model, _xs_library())
# fmt: on
{end}
'''
