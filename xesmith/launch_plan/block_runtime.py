"""What generated blocks share. The renderer copies the sections that a plan needs.

Runs inside optimised files, far from xesmith: the standard library, torch and Triton only, and
every name begins with `_xs`. The module can be imported as it is, which is how it is tested.
"""

# Sections repeat their imports, and names are those of generated code.
# ruff: noqa
# pyright: basic, reportArgumentType=false, reportOptionalMemberAccess=false

# section: base
import re as _xs_re

import triton as _xs_triton

_xs_VERSION = tuple(int(number) for number in _xs_re.findall(r"\d+", _xs_triton.__version__)[:2])
# What working out an alternative for a call that it does not foresee may raise.
_xs_CANNOT = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)


def _xs_run(launches, warmup=False):
    """Launches (kernel, grid, arguments, options) in order; the last one's result."""
    result = None
    for kernel, grid, arguments, options in launches:
        if warmup:
            result = kernel.warmup(grid=grid, **arguments, **options)
        else:
            result = kernel[grid](**arguments, **options)
    return result


def _xs_first(alternatives, options, arguments):
    """What the first alternative that applies gives; None where none does."""
    for alternative in alternatives:
        try:
            chosen = alternative(options, **arguments)
        except _xs_CANNOT:
            continue
        if chosen is not None:
            return chosen
    return None


# section: kernel
import inspect as _xs_inspect


class _xs_Kernel:
    """Stands for a kernel: launches the first alternative that applies, else the kernel itself."""

    def __init__(self, kernel, *alternatives, grid=None):
        self._xs = kernel, alternatives, grid
        function = kernel
        while not _xs_inspect.isfunction(function):
            function = function.fn
        parameters = _xs_inspect.signature(function).parameters.values()
        self._xs_names = {parameter.name: None for parameter in parameters}
        self._xs_defaults = {p.name: p.default for p in parameters if p.default is not p.empty}

    def __getattr__(self, name):
        return getattr(self.__dict__["_xs"][0], name)

    def __getitem__(self, grid):
        def launch(*args, **kwargs):
            launches = self._xs_choose(grid, args, kwargs)
            if launches is None:
                return self._xs[0][grid](*args, **kwargs)
            return _xs_run(launches)

        return launch

    def __call__(self, *args, **kwargs):
        return self._xs[0](*args, **kwargs)

    def run(self, *args, grid, warmup=False, **kwargs):
        launches = self._xs_choose(grid, args, kwargs)
        if launches is None:
            return self._xs[0].run(*args, grid=grid, warmup=warmup, **kwargs)
        return _xs_run(launches, warmup)

    def warmup(self, *args, grid, **kwargs):
        launches = self._xs_choose(grid, args, kwargs)
        if launches is None:
            return self._xs[0].warmup(*args, grid=grid, **kwargs)
        return _xs_run(launches, warmup=True)

    def _xs_choose(self, grid, args, kwargs):
        """The launches to make instead; None where the call goes the original way."""
        kernel, alternatives, expected_grid = self._xs
        given = dict(zip(self._xs_names, args))
        options = {name: value for name, value in kwargs.items() if name not in self._xs_names}
        if len(args) > len(self._xs_names) or not given.keys().isdisjoint(kwargs):
            return None
        arguments = {**self._xs_defaults, **given, **kwargs}
        try:
            if expected_grid is not None:
                for tuned in _xs_tuned(kernel, arguments):
                    expected = expected_grid(**tuned)
                    # Most callers pass it in this very form; this runs before every launch.
                    if grid != expected and _xs_grid(grid, tuned) != _xs_grid(expected, tuned):
                        return None
        except _xs_CANNOT:
            return None
        return _xs_first(alternatives, options, arguments)


def _xs_grid(grid, arguments):
    """A launch grid as three numbers."""
    grid = grid(arguments) if callable(grid) else grid
    sizes = tuple(int(size) for size in (grid if isinstance(grid, (list, tuple)) else (grid,)))
    return sizes + (1,) * (3 - len(sizes))


def _xs_tuned(kernel, arguments):
    """`arguments` with what each configuration of the kernel's own autotune adds."""
    if hasattr(kernel, "configs"):
        for config in kernel.configs:
            yield from _xs_tuned(kernel.fn, {**arguments, **config.all_kwargs()})
    elif hasattr(kernel, "values"):
        more = dict(arguments)
        for name, heuristic in kernel.values.items():
            more[name] = heuristic(more)
        yield from _xs_tuned(kernel.fn, more)
    else:
        yield arguments


# section: function
import functools as _xs_functools
import inspect as _xs_inspect


def _xs_function(function, *alternatives):
    """Stands for a function: does the first alternative that applies, else calls the function."""
    signature = _xs_inspect.signature(function)

    @_xs_functools.wraps(function)
    def call(*args, **kwargs):
        try:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
        except TypeError:
            return function(*args, **kwargs)
        chosen = _xs_first(alternatives, {}, bound.arguments)
        if chosen is None:
            return function(*args, **kwargs)
        launches, result = chosen
        _xs_run(launches)
        return result

    return call


# section: backend
_xs_LAST = None, None  # a driver and its backend: to ask takes as long as all else before a launch


def _xs_backend():
    """What the Triton at hand compiles for, as 'xpu' or 'cuda'; None where there is no device."""
    global _xs_LAST
    try:
        driver, last = _xs_triton.runtime.driver.active, _xs_LAST
        if last[0] is not driver:
            last = _xs_LAST = driver, driver.get_current_target().backend
        return last[1]
    except (AttributeError, RuntimeError):  # as in the interpreter
        return None


# section: options
def _xs_options(inherited, dropped, **options):
    """Options of a launch; `grf_mode` belongs to Intel's compiler alone.

    Until Triton 3.5 Intel's compiler calls the modes 'small' and 'large', from 3.6 on '128' and
    '256' (intel-xpu-backend-for-triton, pull request 5430); it ignores a name that it does not
    know.
    """
    kept = {name: value for name, value in inherited.items() if name not in dropped}
    merged = {**kept, **options}
    if "grf_mode" in options:
        mode = _xs_grf_mode(options["grf_mode"])
        merged.pop("grf_mode") if mode is None else merged.update(grf_mode=mode)
    return merged


def _xs_grf_mode(mode):
    """The mode in the spelling of the compiler at hand; None where it has no such option."""
    if _xs_backend() != "xpu":
        return None
    old = {"128": "small", "256": "large", "512": "large"}
    if _xs_VERSION < (3, 6):
        return old.get(mode, mode)
    return {"small": "128", "large": "256"}.get(mode, mode)


# section: configs
def _xs_configs(kernel):
    """An autotuned kernel with `grf_mode` in its configurations spelled for the compiler."""
    for config in kernel.configs:
        if "grf_mode" in config.kwargs:
            mode = _xs_grf_mode(config.kwargs.pop("grf_mode"))
            if mode is not None:
                config.kwargs["grf_mode"] = mode
    return kernel


# section: pointers
import torch as _xs_torch


def _xs_pointers(block_pointer=None, descriptor=None):
    """The form of a kernel that this Triton compiles.

    Block pointers below 3.8: from there Intel's compiler refuses them, and upstream has removed
    them in 3.9. Tensor descriptors where `tl.make_tensor_descriptor` exists.
    """
    if block_pointer is not None and _xs_VERSION < (3, 8):
        return block_pointer
    if descriptor is None or not hasattr(_xs_triton.language, "make_tensor_descriptor"):
        raise RuntimeError("no form of this kernel for this Triton")
    _xs_allocator()
    return descriptor


def _xs_allocator():
    """Gives CUDA the workspace that descriptors need, where the user has set no allocator."""
    from triton.runtime import _allocation

    current = getattr(_allocation, "_allocator", None)
    current = current.get() if hasattr(current, "get") else current
    if type(current).__name__ == "NullAllocator":
        _xs_triton.set_allocator(
            lambda size, alignment, stream: _xs_torch.empty(
                size, dtype=_xs_torch.int8, device="cuda"
            )
        )


# section: dtype
_xs_DTYPES = {}


def _xs_dtype(tensor):
    dtype = tensor.dtype
    if dtype not in _xs_DTYPES:
        _xs_DTYPES[dtype] = str(dtype).removeprefix("torch.")
    return _xs_DTYPES[dtype]


# section: aligned
def _xs_aligned(tensor, size):
    return tensor.data_ptr() % size == 0


# section: cdiv
def _xs_cdiv(a, b):
    return -(-a // b)


# section: next_power_of_2
def _xs_next_power_of_2(a):
    return 1 << max(0, a - 1).bit_length()


# section: min
from builtins import min as _xs_min

# section: max
from builtins import max as _xs_max
