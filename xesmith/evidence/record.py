"""The noun Evidence: one record per launch and configuration, every fact with its level.

The models here are the schema (docs/schema/evidence.schema.json is generated from them).
A level that could not be read is None, and `not_read` says why.
Lines are 1-based lines of the kernel's source file; None where the compiler kept none.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Fact(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Site(Fact):
    """Where in the kernel's source a fact stands."""

    file: str | None = None
    line: int | None = None
    column: int | None = None


class Dot(Fact):
    """A matrix product of m x k by k x n elements, per program and iteration."""

    site: Site
    m: int
    n: int
    k: int
    a_type: str  # "f16"
    b_type: str
    acc_type: str
    input_precision: str  # "tf32", "ieee", "bf16x3", ...
    loop: int | None  # index into `loops`
    batch: int = 1  # dots of this shape that one operation makes
    #: False: behind a condition that the captured values never fulfil
    reached: bool = True
    encoding: str | None = None  # ttgir: the result's layout in short, "dpas", "blocked"
    on_dpas: bool | None = None  # ttgir for Intel only: the result has a DPAS encoding
    why_not_dpas: str | None = None  # ttgir only


AccessKind = Literal["pointer", "block_pointer", "descriptor"]


class Surface(Fact):
    """The memory that a block pointer or descriptor states, in elements.

    Expressions are in argument names; values are with the captured arguments. None: not an
    expression of arguments, or not the same in every program.
    """

    shape: tuple[str | None, ...]
    strides: tuple[str | None, ...]
    shape_values: tuple[int | None, ...]
    stride_values: tuple[int | None, ...]
    order: tuple[int, ...]  # dimensions from the fastest; () for descriptors
    base_alignment_bytes: int | None  # in every program; None where that is not known
    base_moved: bool = False  # the base is the argument plus an offset


class Access(Fact):
    """A load, store or prefetch as the IR states it (the intent, not the outcome)."""

    op: Literal["load", "store", "prefetch"]
    kind: AccessKind
    site: Site
    shape: tuple[int, ...]
    element_type: str
    element_bits: int
    masked: bool
    mask_always_true: bool | None = None  # None: not known from the IR alone
    loop: int | None
    reached: bool = True  # False: behind a condition that the captured values never fulfil
    argument: str | None = None  # the pointer argument it goes back to, "arg0" or its name
    encoding: str | None = None  # ttgir
    block_io: str | None = None  # ttgir: "row_major" | "column_major"; the intent
    why_not_block_io: str | None = None  # ttgir: from the IR
    #: ttgir: block_io is there, but the IR says why native code may have no 2D block for it
    block_io_doubt: str | None = None
    surface: Surface | None = None  # of block pointers and descriptors
    #: contiguous elements per thread along the fastest dimension that the compiler proved
    contiguity: int | None = None
    bytes_per_access: int | None = None  # widest single access per lane


class Loop(Fact):
    """A loop of the IR. Trip counts are iterations per run of the loop."""

    index: int
    site: Site
    parent: int | None
    trip_count: int | None  # with the captured arguments; None: not the same everywhere
    trip_expression: str | None = None  # symbolic in arguments
    reached: bool = True  # False: behind a condition that the captured values never fulfil
    trip_mean: float | None = None  # over all programs of the captured grid


class ProgramGroup(Fact):
    """Programs of the captured grid that run every loop equally often."""

    programs: int
    iterations: tuple[float, ...]  # of each of `loops`, in one program from start to end
    bytes_moved: float  # loaded and stored by one program


class IrCounts(Fact):
    """Counts of operations, by where they stand."""

    f64_operations: int = 0
    i64_operations: int = 0  # arithmetic on i64 or tensors of i64
    i64_address_operations: int = 0  # of these, those that feed a pointer
    atomics: int = 0
    barriers: int = 0
    reductions: int = 0
    math: dict[str, int] = Field(default_factory=dict)  # "exp": 2


class Ttir(Fact):
    """The Triton IR: what the kernel says. FLOP and bytes are of one program, all iterations."""

    dots: tuple[Dot, ...]
    accesses: tuple[Access, ...]
    loops: tuple[Loop, ...]
    counts: IrCounts
    f64_sites: tuple[Site, ...] = ()
    i64_address_sites: tuple[Site, ...] = ()
    flop_expression: str | None = None  # symbolic in arguments and program count
    bytes_expression: str | None = None
    flop_per_program: float | None = None  # with the captured argument values
    bytes_loaded_per_program: float | None = None
    bytes_stored_per_program: float | None = None
    #: all programs of the grid; () where there are none or a loop's count is unknown
    program_groups: tuple[ProgramGroup, ...] = ()


class LayoutConversion(Fact):
    """A value that changes its layout among the threads of a work-group."""

    site: Site
    source: str
    destination: str
    shape: tuple[int, ...]
    element_bits: int
    loop: int | None
    #: bytes through shared local memory; 0 where it is a register move; None: not known
    slm_bytes: int | None
    reached: bool = True  # False: behind a condition that the captured values never fulfil
    op: str = "ttg.convert_layout"  # or "ttg.local_alloc": operands staged in shared memory


class Dpas(Fact):
    """The parameters of a DPAS layout, as the TTGIR states them."""

    repeat_count: int
    systolic_depth: int
    execution_size: int
    ops_per_channel: int
    warps_per_cta: tuple[int, ...]


class Ttgir(Fact):
    """The Triton GPU IR: layouts and intents. What became of them is in `Native`."""

    dialect: Literal["triton_intel_gpu", "ttig", "none"]
    num_warps: int
    threads_per_warp: int  # the sub-group size
    target: str | None
    module_attributes: dict[str, str]
    encodings: dict[str, int]  # encoding text -> number of values that have it
    dpas: tuple[Dpas, ...]
    dots: tuple[Dot, ...]
    accesses: tuple[Access, ...]
    prefetches: int
    layout_conversions: tuple[LayoutConversion, ...]
    loops: tuple[Loop, ...]
    counts: IrCounts
    shared_bytes: int | None  # from Triton's metadata: `.ze_info` says 0 for Triton kernels


class Spirv(Fact):
    """The module that the native compiler is given. Counts are static calls and instructions."""

    capabilities: tuple[str, ...]
    extensions: tuple[str, ...]
    loads_2d: int
    stores_2d: int
    prefetches_2d: int
    dpas_calls: int
    barriers: int
    atomics: int
    f64_operations: int
    i64_operations: int
    math: dict[str, int]


class Ptx(Fact):
    """Static instructions of one thread. Registers and spills are decided after PTX."""

    version: str
    target: str  # "sm_90a"
    instructions: int
    loads: dict[int, int]  # bytes per thread -> loads from global memory, cp.async among them
    stores: dict[int, int]
    bytes_per_load: float | None  # mean over `loads`; None without any
    async_copies: int  # cp.async
    bulk_copies: int  # cp.async.bulk: a whole box each, not among `loads`
    matrix_instructions: int  # mma, wgmma, tcgen05.mma
    shared_messages: int
    barriers: int
    atomics: int
    f64_instructions: int
    int64_instructions: int
    math: dict[str, int]


class Send2D(Fact):
    """A native 2D block message, with the block it moves."""

    op: Literal["load", "store", "prefetch"]
    site: Site
    element_bits: int
    #: None where the message's payload does not tell the block's shape
    width: int | None  # elements
    height: int | None  # rows
    blocks: int | None
    transpose: bool = False
    vnni: bool = False
    loop: int | None = None
    argument: str | None = None  # the pointer argument that its base goes back to


class NativeLoop(Fact):
    """A loop of the native code. Counts are static: of one iteration, per hardware thread,
    the loops inside counted once."""

    index: int
    label: str
    site: Site
    parent: int | None
    instructions: int
    dpas: int
    loads_2d: int
    stores_2d: int
    prefetches_2d: int
    global_loads: int  # messages to global memory that are not 2D blocks, spills excluded
    global_stores: int
    slm_messages: int
    scratch_messages: int  # spills and fills
    barriers: int
    send_messages: int
    pipes: dict[str, int]  # ALU instructions per pipe: "float", "int", "math", "long", "xmx"
    atomics: int = 0
    f64_instructions: int = 0
    int64_instructions: int = 0

    @property
    def dpas_share(self) -> float:
        """Fraction of the loop's instructions that are dpas."""
        return self.dpas / self.instructions if self.instructions else 0.0


class Native(Fact):
    """What runs. Counts are static instructions of the whole kernel per hardware thread."""

    grf_count: int
    simd_size: int  # lanes per instruction that IGC chose
    spill_bytes_per_thread: int
    spill_bytes_per_lane: float
    private_bytes_per_thread: int | None  # None, as below: not known of a dump
    slm_bytes: int | None  # the larger of Triton's `shared` and `.ze_info` slm_size
    barrier_count: int | None
    hardware_threads_per_xve: int | None
    has_dpas: bool
    instructions: int
    dpas: int
    loads_2d: int
    stores_2d: int
    prefetches_2d: int
    global_loads: int
    global_stores: int
    atomics: int
    slm_messages: int
    scratch_messages: int
    bank_conflicts: int | None
    pipes: dict[str, int]
    sends_2d: tuple[Send2D, ...]
    loops: tuple[NativeLoop, ...]
    main_loop: int | None  # index into loops: most dpas, else most instructions of the innermost
    #: source line -> instructions; one without a line counts on the line stated before it
    instructions_per_line: dict[int, int]
    f64_instructions: int = 0
    int64_instructions: int = 0  # those typed :q or :uq
    register_allocator: str | None = None

    @property
    def main(self) -> NativeLoop | None:
        return None if self.main_loop is None else self.loops[self.main_loop]


class Occupancy(Fact):
    """How many hardware threads of an XVE can hold work, and what limits that."""

    threads_per_xve: int
    fraction: float  # of the threads that the device offers at 128 GRF
    limited_by: Literal["grf", "slm", "work_group_size", "grid", "none"]


class Prediction(Fact):
    """A static prediction; never a measurement. None where the device file lacks a fact."""

    seconds: float | None
    bound_by: str | None  # "memory", "dpas", "issue", "spill", "latency"
    parts: dict[str, float] = Field(default_factory=dict)  # seconds per bound
    why_not: str | None = None  # names the missing device fact


class Derived(Fact):
    """What follows from the evidence and the device file."""

    occupancy: Occupancy | None
    prediction: Prediction | None
    lowered_hash: str  # of SPIR-V (or PTX) and native options: same hash, nothing changed


class Evidence(Fact):
    """All that was read of one launch in one configuration on one device."""

    schema_version: Literal[1] = 1
    kernel: str
    device: str
    compiler: str
    native_compiler: str | None
    launch: dict[str, Any]  # xesmith.ghost.launch.Launch as JSON; grid null: no launch is known
    ttir: Ttir | None
    ttgir: Ttgir | None
    spirv: Spirv | None
    native: Native | None
    ptx: Ptx | None = None  # of NVIDIA GPUs, for which spirv and native are not read
    derived: Derived | None = None
    not_read: dict[str, str] = Field(default_factory=dict)  # level -> reason
    notes: tuple[str, ...] = ()
    suppress: tuple[str, ...] = ()
    failure: dict[str, Any] | None = None  # xesmith.lowering.record.Failure as JSON
