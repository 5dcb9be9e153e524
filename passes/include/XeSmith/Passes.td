//===- Passes.td - The passes, and the source of their reference ----------===//
//
// docs/passes-reference.md is made of this file (`make passes-reference`).
//
//===----------------------------------------------------------------------===//

#ifndef XESMITH_PASSES
#define XESMITH_PASSES

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// Report
//===----------------------------------------------------------------------===//

def Report : Pass<"xesmith-report", "::mlir::ModuleOp"> {
  let summary = "Count what a kernel holds, with FLOPs and bytes in terms of its arguments";
  let description = [{
    Writes JSON into the module's attribute `xesmith.report`, an array with one object for each
    `tt.func`: operations by name, dots with shapes and types, loads and stores by kind, masks,
    boundary checks, prefetches, loops with trip counts, and FLOPs and bytes per program. A trip
    count that is no number stands as an expression of the arguments. Each element of
    floating-point arithmetic counts once, a dot 2 m n k; bytes count every access whole.

    Before:

    ```mlir
    "scf.for"(%c0, %K, %c32, %zero) ({
    ^bb0(%k: i32, %acc: tensor<128x128xf32>):
      %d = "tt.dot"(%a, %b, %acc) : (tensor<128x32xf16>, tensor<32x128xf16>, ...) -> ...
    ```

    After: the same operations, a remark at the function, and

    ```mlir
    // the module's xesmith.report, an array of objects:
    //   {"flop_per_program": "cdiv(K, 32) * 1048576", "name": "gemm", ... }
    ```
  }];
  let options = [
    ListOption<"values", "values", "std::string",
               "Values of arguments, by number or name: 5=4096,K=512">,
    ListOption<"grid", "grid", "int64_t", "Programs along each axis of the launch">
  ];
}

def Evidence : Pass<"xesmith-evidence", "::mlir::ModuleOp"> {
  let summary = "Read a kernel as xesmith's evidence holds it, for one launch";
  let description = [{
    Writes JSON into the module's attribute `xesmith.evidence`: an object of `kernel` (dots,
    accesses, loops, counts), `amounts` (FLOPs and bytes per program, symbolic and as means over
    the grid; the programs of the grid by what they run) and `layouts` (the dialect, encodings,
    DPAS parameters and layout conversions of TTGIR). xesmith's evidence records of TTIR and TTGIR
    are made of it; docs/schema/evidence.schema.json tells what each field means.

    Integers are bounded in each program of the grid up to 65536 programs, above that in all at
    once. What is not proven is null. `reached` is false behind a condition that the launch never
    fulfils. Why an access is no 2D block, or a dot not on DPAS, is said in the words of
    `xesmith-check-block-io` and `xesmith-check-dpas`.

    An operation that lacks what it must have, a load without a pointer or a dot of vectors, is an
    error: nothing is guessed.

    Before, with `names=x,n values=n=4096 grid=32,1,1`:

    ```mlir
    ^bb0(%arg0: !tt.ptr<f32>, %arg1: i32):
      %x = "tt.load"(%p, %m) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (...) -> tensor<128xf32>
    ```

    After: the same operations, and

    ```mlir
    // the module's xesmith.evidence:
    //   {"kernel": {"accesses": [ {"op": "load", "argument": "x", "mask_always_true": true, ...} ],
    //               ...}, "amounts": {"bytes_loaded_per_program": 512, ...}, ...}
    ```
  }];
  let options = [
    Option<"kernel", "kernel", "std::string", "", "The kernel's name; without it the first function">,
    ListOption<"names", "names", "std::string", "Names of the arguments, in order">,
    ListOption<"values", "values", "std::string",
               "Values of arguments, by number or name: 5=4096,K=512">,
    ListOption<"grid", "grid", "int64_t", "Programs along each axis of the launch">,
    ListOption<"alignments", "alignments", "std::string",
               "Alignment in bytes of pointer arguments, by number or name: 0=64">
  ];
}

def Ask : Pass<"xesmith-ask", "::mlir::ModuleOp"> {
  let summary = "Tell what is proven of the operand of each `xesmith.ask`";
  let description = [{
    For tests of the passes, and for whoever wonders why a pass did not fire. A remark at each
    operation `xesmith.ask` holds JSON: `low` and `high`, bounds in each program of the grid or one
    pair for all; `text`, an expression of arguments; `slopes`, by how much a tensor grows along
    each dimension; `argument`, the one that a pointer goes back to. What is not known is absent.

    Before, with `grid=3`:

    ```mlir
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    "xesmith.ask"(%pid) : (i32) -> ()
    ```

    After: the same operations, and

    ```
    remark: {"high":[0,1,2],"low":[0,1,2],"text":"pid0"}
    ```
  }];
  let options = [
    ListOption<"values", "values", "std::string",
               "Values of arguments, by number or name: 5=4096,K=512">,
    ListOption<"grid", "grid", "int64_t", "Programs along each axis of the launch">
  ];
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

def CheckBlockIO : Pass<"xesmith-check-block-io", "::mlir::ModuleOp"> {
  let summary = "Name each load and store that can't be a 2D block message, and why";
  let description = [{
    Holds each access against the conditions of Xe2's 2D block messages: two dimensions; elements
    of 8, 16, 32 or 64 bits; a rectangle that states its shape (a block pointer or descriptor); a
    last stride that is the constant 1; a pitch that is a multiple of 16 B and at least 64 B; a
    width of 64 B to 2^24 B; a base that is not moved off 64 B; and, in TTGIR, a layout of DPAS.
    What is not constant must be promised by `tt.divisibility`.

    Nothing is said where the module says that the device has no 2D block messages. Findings:
    `load-not-2d-block`, `store-not-2d-block`; of accesses with one dimension they are remarks.

    Before:

    ```mlir
    // %arg4: i32 without tt.divisibility
    %pitch = "arith.extsi"(%arg4) : (i32) -> i64
    %p = "tt.make_tensor_ptr"(%base, %m, %n, %pitch, %one, %i, %j)
           : (...) -> !tt.ptr<tensor<128x32xf16>>
    %a = "tt.load"(%p) : (!tt.ptr<tensor<128x32xf16>>) -> tensor<128x32xf16>
    ```

    After: the same operations, and

    ```
    kernel.py:18:25: warning: [load-not-2d-block] this load of 128x32xf16 cannot be a 2D block message
    kernel.py:18:25: note: why: the pitch is the argument `arg4` times 2 B, not known to be a multiple of 16 B
    kernel.py:18:25: note: mend: pass a stride that 16 divides, so that Triton specialises on it
    ```
  }];
}

def CheckDpas : Pass<"xesmith-check-dpas", "::mlir::ModuleOp"> {
  let summary = "Name each dot that the matrix engines can't take, and why";
  let description = [{
    A dot runs on DPAS where its operands are of one type among float32 (as tf32 only), float16,
    bfloat16, int8 and float8, the accumulator fits, K is at least one DPAS deep and N at least 16;
    and every dot of the kernel must qualify. In TTGIR the layout of the result tells what the
    compiler made. Finding: `dot-not-dpas`.

    Before:

    ```mlir
    %d = "tt.dot"(%a, %b, %c) <{inputPrecision = 2 : i32}>
           : (tensor<64x32xf32>, tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    ```

    After: the same operations, and

    ```
    warning: [dot-not-dpas] the dot of 64x32xf32 to 64x64xf32 is not computed by the matrix engines
    note: why: float32 operands with input_precision 'ieee': DPAS takes float32 only as tf32
    ```
  }];
}

def CheckLayoutConversions : Pass<"xesmith-check-layout-conversions", "::mlir::ModuleOp"> {
  let summary = "Name tiles that change their layout in every iteration of a loop, with their bytes";
  let description = [{
    A `ttg.convert_layout`, or a `ttg.local_alloc` of a value, inside a loop moves its tile through
    shared local memory each time. A conversion from a DPAS result to the first operand of the same
    DPAS, and one between layouts of equal ownership, stays in registers and is left out. The
    bytes are those of the buffer that it goes through, its rows padded. Finding: `layout-conversion-in-loop`.

    Before:

    ```mlir
    "scf.for"(%lb, %ub, %step) ({
      %m = "ttg.local_alloc"(%a) : (tensor<128x32xf16, #ttg.blocked<...>>) -> !ttg.memdesc<128x32xf16, ...>
      %d = "ttg.local_load"(%m) : (...) -> tensor<128x32xf16, #ttg.dot_op<...>>
    ```

    After: the same operations, and

    ```
    warning: [layout-conversion-in-loop] a tile of 128x32xf16 changes its layout in every iteration (8192 B)
    note: why: from blocked to dot operand 0 of dpas, through shared local memory
    ```
  }];
}

def CheckWideArithmetic : Pass<"xesmith-check-wide-arithmetic", "::mlir::ModuleOp"> {
  let summary = "Name float64 arithmetic, and 64-bit integer arithmetic on tensors";
  let description = [{
    One finding a line and kind, with the number of operations: `f64-arithmetic` and
    `i64-address-arithmetic`. Single 64-bit integers, such as the shape of a block pointer, are
    left out.

    Before:

    ```mlir
    %w = "arith.extf"(%x) : (tensor<128xf32>) -> tensor<128xf64>
    %s = "arith.mulf"(%w, %w) : (tensor<128xf64>, tensor<128xf64>) -> tensor<128xf64>
    ```

    After: the same operations, and

    ```
    warning: [f64-arithmetic] 2 float64 operations here
    ```
  }];
}

def CheckInvariants : Pass<"xesmith-check-invariants", "::mlir::ModuleOp"> {
  let summary = "Name descriptors, block pointers and pointers that a loop rebuilds unchanged";
  let description = [{
    Finding: `invariant-rebuilt-in-loop`, for a `tt.make_tensor_ptr`, a
    `tt.make_tensor_descriptor` or the end of a chain of `tt.addptr` inside an `scf.for` of which
    no operand changes there.
    Finding: `block-pointer-rebuilt-in-loop`, for a `tt.make_tensor_ptr`, or a `tt.advance` of a block
    from before the loop, of which nothing but offsets changes, by the same in every iteration.

    Before:

    ```mlir
    "scf.for"(%lb, %ub, %step) ({
      %d = "tt.make_tensor_descriptor"(%arg0, %m, %n, %s, %one) : (...) -> !tt.tensordesc<tensor<64x64xf16>>
    ```

    After: the same operations, and

    ```
    warning: [invariant-rebuilt-in-loop] every iteration makes the same descriptor
    ```
  }];
}

def CheckMasks : Pass<"xesmith-check-masks", "::mlir::ModuleOp"> {
  let summary = "Name masks that are true for every element";
  let description = [{
    Proves masks by bounds of every element: of ranges, loop counters, arguments whose values the
    option gives, and program numbers where it gives the grid. An operation that might overflow
    proves nothing. Of a loop over K in steps that `tt.divisibility` promises to divide K, a whole
    step is left in every iteration. Finding (a remark): `needless-mask`.

    Of a load or store through a block pointer the boundary check is held to the same: along each
    dimension, whether the block lies inside the tensor by bounds of its offset, through
    `tt.advance` and loops whose trip count is known.

    Before, with `values=1=4096 grid=32`:

    ```mlir
    %o = "arith.addi"(%start, %range) : (tensor<128xi32>, tensor<128xi32>) -> tensor<128xi32>
    %m = "arith.cmpi"(%o, %n) <{predicate = 2 : i64}> : (tensor<128xi32>, tensor<128xi32>) -> tensor<128xi1>
    %x = "tt.load"(%p, %m) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (...) -> tensor<128xf32>
    ```

    After: the same operations, and

    ```
    remark: [needless-mask] the mask of this load is true for every element
    ```
  }];
  let options = [
    ListOption<"values", "values", "std::string",
               "Values of arguments, by number or name: 5=4096,K=512">,
    ListOption<"grid", "grid", "int64_t", "Programs along each axis of the launch">
  ];
}

def CheckOffsets : Pass<"xesmith-check-offsets", "::mlir::ModuleOp"> {
  let summary = "Name 32-bit arithmetic on offsets that wraps around in a launch";
  let description = [{
    A sum or product of 32 bits that leads to an address, of numbers that are not negative, and of
    which in some program of the grid even the smallest is beyond 2^31 - 1. That the access then
    goes elsewhere shows at such sizes only. Finding: `offset-wraps`.

    Before, with `values=1=65536 grid=65536`:

    ```mlir
    %o = "arith.muli"(%pid, %stride) : (i32, i32) -> i32
    %p = "tt.addptr"(%arg0, %o) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
    ```

    After: the same operations, and

    ```
    warning: [offset-wraps] this 32-bit product is 4294901760 or more in a program of the grid
    ```
  }];
  let options = [
    ListOption<"values", "values", "std::string",
               "Values of arguments, by number or name: 5=4096,K=512">,
    ListOption<"grid", "grid", "int64_t", "Programs along each axis of the launch">
  ];
}

def CheckPrefetch : Pass<"xesmith-check-prefetch", "::mlir::ModuleOp"> {
  let summary = "Name loops with dots whose tiles are not prefetched";
  let description = [{
    In TTGIR for an Intel GPU: a warning where a loop with a dot loads tiles and prefetches none, a
    remark with the distance in iterations where only some are. Finding: `missing-prefetch`.

    Before:

    ```mlir
    "scf.for"(%lb, %ub, %step, %zero) ({
      %a = "tt.load"(%p) : (...) -> tensor<128x32xf16, #ttg.dot_op<...>>
      %d = "tt.dot"(%a, %b, %acc) : ...
    ```

    After: the same operations, and

    ```
    warning: [missing-prefetch] a loop with 1 dots loads 2 tiles and prefetches none
    ```
  }];
}

def CheckCoalescing : Pass<"xesmith-check-coalescing", "::mlir::ModuleOp"> {
  let summary = "Name accesses through pointers that move single elements";
  let description = [{
    In TTGIR, for tensors of pointers in a blocked layout: what a lane moves at a time, by the
    layout's vector along its fastest dimension and by how addresses grow there, against its share
    of the tile (at most 16 B). Addresses that are not followed are not judged. Finding:
    `uncoalesced-access`.

    Before, with order = [1, 0] and a column stride in %arg3:

    ```mlir
    %x = "tt.load"(%p) : (tensor<64x64x!tt.ptr<f32>, #ttg.blocked<{sizePerThread = [1, 4], ...}>>) -> ...
    ```

    After: the same operations, and

    ```
    warning: [uncoalesced-access] each lane moves 4 B at a time where 16 B could be
    ```
  }];
}

def CheckSlm : Pass<"xesmith-check-slm", "::mlir::ModuleOp"> {
  let summary = "Hold the shared local memory that a kernel needs against the device's";
  let description = [{
    In TTGIR for an Intel GPU. Where the module has `ttg.shared`, the compiler has allocated it and
    that number counts. Before that it is estimated: what `ttg.local_alloc` keeps as long as it is
    read, and for the time of a layout conversion or of a reduction across sub-groups what goes
    through memory; the sum where most of it lives at once. A conversion counts the part of the tile
    that both layouts deal out at a time, with padded rows, as the allocation of triton-xpu 3.3
    does; scans, histograms and layouts other than blocked, DPAS, its operands and their slices do
    not count. The estimate equals what triton-xpu 3.3.0b1 allocates for each problem of ours.

    Findings: `slm-over-limit`, and the remark `slm-footprint` where it fits.

    Before, with `slm-bytes=131072` and 16 warps:

    ```mlir
    %c = "ttg.convert_layout"(%acc) : (tensor<256x256xf16, #triton_intel_gpu.dpas<...>>)
           -> tensor<256x256xf16, #ttg.blocked<...>>
    ```

    After: the same operations, and

    ```
    warning: [slm-over-limit] an estimated 135168 B of shared local memory, of 131072 B that a work-group can have
    note: why: at once: 256x256xf16 on its way to another layout (line 49), 135168 B
    ```
  }];
  let options = [
    Option<"slmBytes", "slm-bytes", "int64_t", /*default=*/"131072",
           "What a work-group of the device can have">
  ];
}

def CheckRegisters : Pass<"xesmith-check-registers", "::mlir::ModuleOp"> {
  let summary = "Estimate where the tiles of a kernel do not fit the registers of a thread";
  let description = [{
    In TTGIR for an Intel GPU, before native code exists: at each operation the bytes of the tiles
    that are live after it, for one sub-group, by their layouts, `ttg.num-warps` and
    `ttg.threads-per-warp`. A dot's operands count with its result, and its accumulator is written
    in place. A block pointer counts as one register, a tensor of pointers one address for each
    vector of its layout; constants, ranges, scalars and what is spread from them nothing. Finding:
    `register-pressure`, at the peak, with what is live there, where this and 8 registers for
    headers and addresses exceed the file of `registers` times 64 B.

    It is no count of spills: the native compiler orders instructions anew, computes cheap values
    again, and needs registers that no tile has. Told is that tiles alone do not fit; that nothing
    is said is no promise. On products of float16 for Arc Pro B70 (triton-xpu 3.3.0b1, ocloc
    26.27) it speaks where native code spills and not where it does not:

    | tile, warps, registers | estimated live B/thread | of | native spill B/thread |
    |---|---|---|---|
    | 256x256x32, 32, 128 | 14592 | 8192 | 6848 |
    | 256x256x32, 64, 128 | 8448 | 8192 | 1536 |
    | 256x256x32, 32, 256 | 14592 | 16384 | 0 |
    | 256x128x32, 16, 256 | 14592 | 16384 | 0 |
    | 128x128x32, 32, 128 | 5376 | 8192 | 0 |

    These load their operands by block pointers. Of kernels that load them through local memory it
    says too much at times: of the problem gemm_bt it estimates 9480 B of 8192 B, and its native
    code reads the operands piece by piece and does not spill. Operands of a dot that is not on DPAS
    count as if the sub-groups had shared them evenly, which is less than they hold.

    Before, with `registers=128`:

    ```mlir
    %d = "tt.dot"(%a, %b, %acc) : (tensor<256x32xf16, ...>, tensor<32x256xf16, ...>,
           tensor<256x256xf32, #triton_intel_gpu.dpas<...>>) -> tensor<256x256xf32, ...>
    ```

    After: the same operations, and

    ```
    warning: [register-pressure] an estimated 14592 B of tiles live here in each thread, of 8192 B of registers (128 of them)
    note: why: 256x256xf32 of tt.dot (line 17), 8192 B; 32x256xf16 of tt.load (line 16), 4096 B; ...
    ```
  }];
  let options = [
    Option<"registers", "registers", "int64_t", /*default=*/"128",
           "Registers of a thread: grf_mode">
  ];
}

//===----------------------------------------------------------------------===//
// Transforms
//===----------------------------------------------------------------------===//

def SpecializeArgs : Pass<"xesmith-specialize-args", "::mlir::ModuleOp"> {
  let summary = "Replace scalar arguments by the values of a launch, and fold";
  let description = [{
    The signature stays: a launch still passes the arguments, and must pass these values. Folds
    `arith`, `scf.for` and `scf.if`, and Triton's splat, broadcast, expand_dims and reshape of
    constants, then erases what nothing uses.

    Before, with `values=1=4096`:

    ```mlir
    ^bb0(%arg0: !tt.ptr<f32>, %arg1: i32):
      %n = "tt.splat"(%arg1) : (i32) -> tensor<128xi32>
    ```

    After:

    ```mlir
    ^bb0(%arg0: !tt.ptr<f32>, %arg1: i32):
      %n = "arith.constant"() <{value = dense<4096> : tensor<128xi32>}> : () -> tensor<128xi32>
    ```
  }];
  let options = [
    ListOption<"values", "values", "std::string",
               "Values of arguments, by number or name: 5=4096,K=512">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def NarrowOffsets : Pass<"xesmith-narrow-offsets", "::mlir::ModuleOp"> {
  let summary = "Compute offsets in 32 bits where all of them provably fit";
  let description = [{
    For each `tt.addptr` whose offsets are 64-bit, and each signed comparison of 64-bit integers, as
    of a mask: where every value on the way, from 32-bit values and constants on, provably fits 32
    bits, the same is computed in 32 bits. The proof is by bounds, as in `xesmith-check-masks`; give
    it values and the grid, or specialise arguments first.

    Before, with `grid=32`:

    ```mlir
    %w = "arith.extsi"(%pid) : (i32) -> i64
    %o = "arith.muli"(%w, %c4096) : (i64, i64) -> i64
    %p = "tt.addptr"(%arg0, %o) : (!tt.ptr<f32>, i64) -> !tt.ptr<f32>
    ```

    After:

    ```mlir
    %o = "arith.muli"(%pid, %c4096) : (i32, i32) -> i32
    %p = "tt.addptr"(%arg0, %o) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
    ```
  }];
  let options = [
    ListOption<"values", "values", "std::string",
               "Values of arguments, by number or name: 5=4096,K=512">,
    ListOption<"grid", "grid", "int64_t", "Programs along each axis of the launch">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def Exp2 : Pass<"xesmith-exp2", "::mlir::ModuleOp"> {
  let summary = "Write exp as exp2, with its scale folded into a constant factor";
  let description = [{
    exp(x) is exp2(x log2(e)), and the card computes exp2. Where x is already a product with a
    constant the factor goes into that constant, so one multiplication is saved; else the one that
    the compiler would add shows here. For float32 only. The result may differ in the last bits.

    Before:

    ```mlir
    %s = "arith.mulf"(%x, %c) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>  // c = 0.125
    %e = "math.exp"(%s) : (tensor<64xf32>) -> tensor<64xf32>
    ```

    After:

    ```mlir
    %s = "arith.mulf"(%x, %c) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>  // c = 0.180336878
    %e = "math.exp2"(%s) : (tensor<64xf32>) -> tensor<64xf32>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def HoistInvariant : Pass<"xesmith-hoist-invariant", "::mlir::ModuleOp"> {
  let summary = "Move what an scf.for never changes before it, and carry block pointers through it";
  let description = [{
    Stock MLIR moves only operations whose effects it knows. This moves splat, broadcast,
    expand_dims, make_range, addptr, make_tensor_ptr, make_tensor_descriptor and the like too, and
    what of `arith` and `math` may run when the loop does not.

    A block pointer that is made in the loop, or advanced there from one before it, and of which
    offsets alone change, by the same in every iteration, is made before the loop and carried: the form that Intel's pipeliner prefetches.
    triton-xpu 3.3.0b1 does not compile the other where the block is an operand of a dot. Offsets
    are taken to stay within 32 bits, as Triton's own are.

    Before:

    ```mlir
    "scf.for"(%zero, %K, %c32) ({
    ^bb0(%k: i32):
      %s = "tt.splat"(%arg0) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
      %p = "tt.make_tensor_ptr"(%arg1, %m, %n, %pitch, %one, %i, %k) : (...) -> !tt.ptr<tensor<128x32xf16>>
    ```

    After:

    ```mlir
    %s = "tt.splat"(%arg0) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
    %start = "tt.make_tensor_ptr"(%arg1, %m, %n, %pitch, %one, %i, %zero) : (...) -> !tt.ptr<tensor<128x32xf16>>
    "scf.for"(%zero, %K, %c32, %start) ({
    ^bb0(%k: i32, %p: !tt.ptr<tensor<128x32xf16>>):
      ...
      %next = "tt.advance"(%p, %c0, %c32) : (...) -> !tt.ptr<tensor<128x32xf16>>
      "scf.yield"(%next)
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def DemoteFloat64 : Pass<"xesmith-demote-float64", "::mlir::ModuleOp"> {
  let summary = "Compute in float32 what was made float64 between narrower loads and stores";
  let description = [{
    Results change by rounding: run it where float32 is precise enough. A chain of float64 values
    becomes float32 where everything that it begins with is narrower (a load, an argument, an
    integer) or a constant, and everything that it ends in; conversions to and from float32 vanish.
    Types in memory and the signature never change. A chain is left whole as it is where it touches
    float64 in memory or in the signature, a call, assembly, a bit cast or a conversion to an
    integer, or a constant that is no normal number in float32; and where nothing is computed
    between the conversions.

    Before:

    ```mlir
    %w = "arith.extf"(%x) : (tensor<128xf16>) -> tensor<128xf64>
    %s = "arith.addf"(%total, %w) : (tensor<128xf64>, tensor<128xf64>) -> tensor<128xf64>
    ```

    After:

    ```mlir
    %w = "arith.extf"(%x) : (tensor<128xf16>) -> tensor<128xf32>
    %s = "arith.addf"(%total, %w) : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def DropTrueMasks : Pass<"xesmith-drop-true-masks", "::mlir::ModuleOp"> {
  let summary = "Drop masks that are true for every element";
  let description = [{
    The proof is that of `xesmith-check-masks`. Without its mask a load has no use for `other`.
    With the option's values and grid the kernel is right for launches with these only. Boundary
    checks of block pointers go along each dimension where the block provably lies inside.

    Before, with `values=1=4096 grid=32`:

    ```mlir
    %x = "tt.load"(%p, %m, %zero) <{operandSegmentSizes = array<i32: 1, 1, 1>}> : (...) -> tensor<128xf32>
    ```

    After:

    ```mlir
    %x = "tt.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (...) -> tensor<128xf32>
    ```
  }];
  let options = [
    ListOption<"values", "values", "std::string",
               "Values of arguments, by number or name: 5=4096,K=512">,
    ListOption<"grid", "grid", "int64_t", "Programs along each axis of the launch">
  ];
}

#endif // XESMITH_PASSES
