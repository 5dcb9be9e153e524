//===- Kernel.h - One kernel's loops, accesses, dots and amounts ----------===//
//
// What the evidence, the report and the checks have in common: each fact is found here, once.
//
//===----------------------------------------------------------------------===//

#ifndef XESMITH_KERNEL_H
#define XESMITH_KERNEL_H

#include "XeSmith/Encodings.h"
#include "XeSmith/Numbers.h"
#include "XeSmith/TritonIR.h"
#include "llvm/ADT/MapVector.h"
#include <map>
#include <vector>

namespace mlir::xesmith {

/// Why the compiler can't do a thing, and what a programmer can do about it ("" for nothing).
struct Obstacle {
  std::string why;
  std::string mend;
};

/// A sum of amounts times how often each is met, in one program from start to end.
struct Amount {
  llvm::MapVector<std::string, int64_t, std::map<std::string, unsigned>> terms; // by the trip counts around it, as text
  std::optional<std::vector<double>> perProgram = std::vector<double>{0};

  /// "cdiv(K, 32) * 4096 + 512"; "" for nothing.
  std::string text() const;
  /// Over the programs of the grid; nullopt where a trip count is not known.
  std::optional<double> mean() const;
};

/// The operations of a block pointer's way from its maker to an access.
struct BlockOrigin {
  Operation *maker = nullptr;
  SmallVector<std::optional<Bounds>> offsets; // in elements, where the access is
};

/// Floating operations of one execution: each element once, a dot 2 m n k, an fma twice.
int64_t flopOf(Operation *op);
/// Bytes that a load, store or atomic moves, masked-off elements too.
int64_t bytesOf(Operation *op);
/// m, n, k of one dot and how many there are in one operation; nullopt where it is malformed.
struct DotShape {
  int64_t m, n, k, batch;
};
std::optional<DotShape> dotShape(Operation *dot);
/// "tf32", "ieee", ...; "none" where the dot states nothing.
std::string inputPrecision(Operation *dot);
/// "exp2" of math.exp2; the symbol of an external call; "" for anything else.
std::string mathName(Operation *op);
/// Arithmetic or a conversion with a float64 operand or result; constants do not count.
bool worksOnF64(Operation *op);
/// Arithmetic on 64-bit integers or tensors of them; conversions do not count.
bool worksOnI64(Operation *op);
std::optional<Encoding> encodingOf(Value value);
/// "unknown" where there is none.
std::string shortEncoding(const std::optional<Encoding> &encoding);
/// Where nothing in the IR keeps a dot from DPAS, and it is not there all the same.
std::string keptLayout(const std::optional<Encoding> &encoding);
/// The layout of the tensor that an access moves.
std::optional<Encoding> movedEncoding(Operation *access);
/// "load", "store" or "prefetch"; "" for anything else.
StringRef accessName(Operation *op);
/// "pointer", "block_pointer" or "descriptor".
StringRef accessKind(Operation *access);
/// Whether a mask, or a check of bounds, stands between an access and what it names.
bool isMasked(Operation *access);

/// One kernel's function. The given numbers are those of a launch, where there is one; what the
/// compiler knew when it made the code is asked of numbers without a launch.
class Kernel {
public:
  Kernel(Operation *function, Numbers &launch);

  Operation *function;
  ModuleOp module;
  Numbers &numbers;
  Numbers compiled;
  SmallVector<std::string> arguments;  // their names
  SmallVector<Operation *> operations; // in textual order
  SmallVector<Operation *> loops;

  const TypeView &view(Value value);

  /// The innermost loop around an operation, as an index into `loops`.
  std::optional<unsigned> loopOf(Operation *op) const;
  /// False where no program of the launch runs the operation.
  bool reached(Operation *op);
  /// How often an operation runs, per program: the product of the loops around it. Where only
  /// bounds of a count are known their middle stands for it; a branch counts as taken unless it
  /// is proven not to be. nullopt where a loop's count is unknown.
  std::optional<std::vector<double>> timesAround(Operation *op);
  /// How often a loop's body runs, counted alike.
  std::optional<std::vector<double>> iterations(Operation *loop);
  /// The trip counts around an operation as text; a loop without an expression is `trips<index>`.
  std::string tripTextAround(Operation *op);

  void add(Amount &amount, Operation *op, int64_t once);
  Amount flop(), bytesLoaded(), bytesStored(), bytesMoved();

  BlockOrigin blockOf(Value pointer);
  /// The largest power of two in bytes that divides a block's base in every program, where the
  /// argument itself is aligned to `argumentBytes`.
  std::optional<int64_t> baseAlignment(Value base, int64_t argumentBytes);
  /// Whether the mask or boundary check is true for every element; false where some program has
  /// no element inside; nullopt where neither is proven.
  std::optional<bool> maskAlwaysTrue(Operation *access);

  /// Contiguous elements per thread of an access through pointers: the layout's vector where
  /// addresses grow by one along it.
  std::optional<int64_t> contiguity(Operation *access);
  /// The widest single access of a lane.
  std::optional<int64_t> bytesPerAccess(Operation *access);
  /// Whether an operation's result goes into the offset of a pointer or of a block.
  bool feedsAddress(Operation *op);
  /// Bytes through shared local memory; 0 for a register move; nullopt where that is not known.
  std::optional<int64_t> conversionBytes(Operation *conversion);
  /// The layout in which a conversion leaves its value; nullopt where none is visible.
  std::optional<Encoding> convertedTo(Operation *conversion);

  /// Which condition of 2D block messages an access does not meet, its layout aside; by what is
  /// known when the kernel is compiled.
  std::optional<Obstacle> messageObstacle(Operation *access);
  /// Several versions of the compiler fall back for more than two dimensions.
  std::optional<Obstacle> rankObstacle(Operation *access);
  /// Several versions of the compiler make 2D blocks in layouts of DPAS only.
  std::optional<Obstacle> layoutObstacle(Operation *access);
  /// Why DPAS can't make a dot, by its own types and sizes or by those of another one.
  std::optional<Obstacle> dpasObstacle(Operation *dot);
  /// "4096", "`stride`".
  std::string strideText(const Slope &slope);

private:
  struct Surroundings {
    std::vector<double> taken; // 0 where a condition goes the other way, else 1
    std::optional<std::vector<double>> times;
    bool reached = true;
  };
  const Surroundings &surroundings(Block *block);
  Obstacle pointerObstacle(Operation *access);
  std::optional<Obstacle> surfaceObstacle(Operation *access);
  std::string called(const std::string &text);
  void moveByLoop(Value carried, SmallVectorImpl<std::optional<Bounds>> &moved);
  std::optional<Bounds> plus(const std::optional<Bounds> &a, const std::optional<Bounds> &b);

  llvm::DenseMap<Operation *, unsigned> loopIndex;
  llvm::DenseMap<Type, TypeView> views;
  llvm::DenseMap<Block *, Surroundings> kept;
  std::optional<llvm::DenseSet<Value>> feeding;
};

/// Every function of a module as a kernel of which nothing is given.
void forEachKernel(ModuleOp module, llvm::function_ref<void(Kernel &)> act);

/// Products and sums per program: one number stands for all programs.
std::vector<double> combineColumns(const std::vector<double> &a, const std::vector<double> &b,
                                   llvm::function_ref<double(double, double)> together);

} // namespace mlir::xesmith

#endif // XESMITH_KERNEL_H
