//===- TritonIR.h - Reading Triton IR without Triton's dialects -----------===//
//
// Stock MLIR knows neither Triton's operations nor its types: operations are unregistered and
// matched by name, types and encodings are opaque text. Everything that a pass needs to know of
// them is here, once. Input may be malformed: nothing here trusts a count of operands.
//
//===----------------------------------------------------------------------===//

#ifndef XESMITH_TRITONIR_H
#define XESMITH_TRITONIR_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace mlir::xesmith {

/// How far a walk through definitions goes before it answers "unknown".
constexpr unsigned maxDepth = 200;

enum class TypeKind { Scalar, Tensor, Pointer, BlockPointer, Descriptor, Memory };

/// A type in Triton's terms. For block pointers and descriptors, `shape`, `element` and
/// `encoding` are those of the block.
struct TypeView {
  TypeKind kind = TypeKind::Scalar;
  SmallVector<int64_t> shape;
  std::string element;  // "f16"; of pointers what they point to
  std::string encoding; // as printed, "" for none
  bool ofPointers = false;

  unsigned elementBits() const; // 0 where the element is no number
  bool isFloat() const;         // of values: what pointers point to does not count
  int64_t elements() const;
  int64_t bytes() const { return elements() * elementBits() / 8; }
  std::string shapeText() const; // "128x32"
};

TypeView viewType(Type type);
/// The same of `viewType`, which reads and copies all of a type's text.
TypeKind typeKind(Type type);
bool holdsPointers(Type type);

/// Operand `index`, or null.
Value operand(Operation *op, unsigned index);

bool isDot(Operation *op);
bool isLoad(Operation *op); // through pointers, block pointers or descriptors
bool isStore(Operation *op);
bool isPrefetch(Operation *op);
bool isAtomic(Operation *op);
bool isBlockMaker(Operation *op); // make_tensor_ptr, make_tensor_descriptor
bool isReduction(Operation *op);  // tt.reduce, tt.scan

/// Operations of Triton without side effects: their result hangs on their operands alone.
bool isPureTriton(Operation *op);

/// The innermost scf.for or scf.while around an operation, or null.
Operation *loopAround(Operation *op);

/// The mask operand of a load or store through pointers, or null.
Value maskOf(Operation *op);

/// One step back along an address: every pointer that `pointer` may be made from.
SmallVector<Value> pointerSources(Value pointer);
/// The make_tensor_ptr or make_tensor_descriptor that a block comes from, where there is one way
/// back to it; null where it is not visible.
Operation *blockMaker(Value block);
ValueRange makerSizes(Operation *maker);
ValueRange makerStrides(Operation *maker);

/// "row_major" and the like where the backend means a 2D block, in either spelling of its
/// dialect (triton_intel_gpu., ttig.).
std::optional<StringRef> blockIOIntent(Operation *op);

/// Whether the module is lowered for an Intel GPU (TTGIR), and what the backend believes of it.
bool isIntelTTGIR(ModuleOp module);
bool hasBlockIO(ModuleOp module);
bool hasDpas(ModuleOp module);
int64_t moduleInteger(ModuleOp module, StringRef name, int64_t otherwise);

/// The tt.func around an operation, or null.
Operation *functionAround(Operation *op);
/// The name of a function's argument: of its location, else "arg<number>".
std::string argumentName(BlockArgument argument);
/// The index of a function's argument; nullopt for any other value.
std::optional<unsigned> functionArgument(Value value);
/// tt.divisibility of an argument; 1 where nothing is promised.
int64_t argumentDivisibility(BlockArgument argument);
/// The function's pointer from which an address is computed; null where the ways lead to several.
BlockArgument baseArgument(Value pointer);

/// `name` as an integer; nullopt where it is none of 64 bits.
std::optional<int64_t> integerAttribute(Operation *op, StringRef name);
/// `array<i32: 1, 0>` or `[1, 0]` as numbers; empty where absent.
SmallVector<int64_t> integersAttribute(Operation *op, StringRef name);
/// As MLIR prints it.
std::string printed(Attribute attribute);
std::string printed(Type type);

/// Every place where a shape is transparent for the values it carries: splat, broadcast,
/// expand_dims, reshape, trans, convert_layout. Its operand, or null.
Value throughShape(Operation *op);

} // namespace mlir::xesmith

#endif // XESMITH_TRITONIR_H
