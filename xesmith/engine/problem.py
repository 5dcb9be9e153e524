"""The noun Problem: a kernel file with the shapes that it is to be good at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from xesmith.errors import UsageError
from xesmith.ghost.launch import Program
from xesmith.kernel_file import KernelFile, read_source
from xesmith.pass_plan import NO_PASSES, PassPlan
from xesmith.spec import Shape, Spec, load_spec

#: the name of the one shape of a problem without a spec
AS_WRITTEN = "as written"


@dataclass(frozen=True)
class Problem:
    """A kernel file (or, with entry "script", any script that launches kernels).

    `shapes` is empty without a spec: the file's own `get_inputs` then says what it runs on.
    """

    path: Path
    source: str
    entry: str
    spec: Spec | None
    variant: str | None
    shapes: tuple[Shape, ...]

    @property
    def name(self) -> str:
        """The folder's name for a `kernel.py` in a problem folder, else the file's."""
        if self.path.stem != "kernel":
            return self.path.stem
        return self.path.parent.name or self.path.resolve().parent.name

    def require_model(self) -> None:
        """Raises UsageError where the file is a script: nothing could be run and compared."""
        if self.entry != "model":
            raise UsageError(
                "the file has no class Model, so nothing can be run and compared",
                where=str(self.path),
                remedy="add Model, get_inputs and get_init_inputs (see bench/problems)",
            )

    @cached_property
    def constexprs(self) -> dict[str, frozenset[str]]:
        """By jit function of the file: its parameters that are declared `tl.constexpr`."""
        try:
            functions = KernelFile.parse(self.source, self.path).jit_functions
        except UsageError:  # a script whose kernels are defined elsewhere
            return {}
        return {
            function.name: frozenset(p.name for p in function.parameters if p.is_constexpr)
            for function in functions
        }

    def program(self, source: str | None = None) -> Program:
        """The program without a shape: what the file itself says."""
        text = self.source if source is None else source
        return Program(source=text, path=str(self.path), entry=self.entry)

    def programs(
        self, source: str | None = None, passes: PassPlan = NO_PASSES
    ) -> dict[str, Program]:
        """By shape name: the program `source` (the problem's own when None) at that shape, with
        `passes` done to its kernels where they are lowered."""
        text = self.source if source is None else source
        made = {shape_name(shape): shape.program(text, self.path) for shape in self.shapes}
        made = made or {AS_WRITTEN: self.program(text)}
        return {name: replace(program, passes=passes) for name, program in made.items()}


def shape_name(shape: Shape) -> str:
    """ "bench-gpu[0]": short and unique within a spec and kind."""
    return f"{shape.variant}[{shape.index}]"


def load_problem(path: Path, spec_path: Path | None = None, variant: str | None = None) -> Problem:
    """Read a kernel file and its spec.

    Without `spec_path` a `spec.yaml` beside the kernel is taken; without that there is none. A
    file without a Model is a script.

    Raises:
        UsageError: a file that is missing, not Python, or a faulty spec or variant.
        InputKernelError: a syntax error in the kernel file.
    """
    if spec_path is None and (beside := path.parent / "spec.yaml").is_file():
        spec_path = beside
    source = read_source(path)
    spec = None if spec_path is None else load_spec(spec_path)
    try:
        has_model = KernelFile.parse(source, path).has_model
    except UsageError:
        # A script may import its kernels from elsewhere.
        if spec is not None:
            raise
        has_model = False
    if spec is None and variant is not None:
        raise UsageError(
            f"variant '{variant}' was asked for, but there is no spec",
            where=str(path),
            remedy="give --spec, or leave out --variant",
        )
    if spec is not None and not has_model:
        raise UsageError(
            "the file has no class Model, so the spec cannot be applied",
            where=str(path),
            remedy="add Model, get_inputs and get_init_inputs, or leave out --spec",
        )
    return Problem(
        path=path,
        source=source,
        entry="model" if has_model else "script",
        spec=spec,
        variant=variant or (spec.default_variant if spec else None),
        shapes=spec.shapes(variant) if spec else (),
    )
