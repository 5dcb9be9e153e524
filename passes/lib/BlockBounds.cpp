//===- BlockBounds.cpp - Where block pointers point, and how they move ----===//

#include "XeSmith/BlockBounds.h"
#include "XeSmith/TritonIR.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinAttributes.h"
#include <limits>

using namespace mlir;
using namespace mlir::xesmith;

SmallVector<int32_t> xesmith::boundaryChecks(Operation *op) {
  Value pointer = operand(op, 0);
  auto checks = op->getAttrOfType<DenseI32ArrayAttr>("boundaryCheck");
  if (!pointer || !checks || (!isLoad(op) && !isStore(op)) ||
      viewType(pointer.getType()).kind != TypeKind::BlockPointer)
    return {};
  return SmallVector<int32_t>(checks.asArrayRef());
}

static std::optional<Interval> sum(Interval a, Interval b) {
  Interval both;
  if (__builtin_add_overflow(a.low, b.low, &both.low) ||
      __builtin_add_overflow(a.high, b.high, &both.high))
    return std::nullopt;
  return both;
}

/// What up to `times` additions of a step come to.
static std::optional<Interval> upTo(int64_t times, Interval step) {
  int64_t low, high;
  if (__builtin_mul_overflow(times, std::min<int64_t>(step.low, 0), &low) ||
      __builtin_mul_overflow(times, std::max<int64_t>(step.high, 0), &high))
    return std::nullopt;
  return Interval{low, high};
}

/// The `tt.advance` of `block` along a dimension; null for anything else.
static Value advanceOf(Value block, unsigned dimension) {
  Operation *op = block.getDefiningOp();
  bool advances = op && op->getName().getStringRef() == "tt.advance";
  return advances ? operand(op, 1 + dimension) : Value();
}

/// Bounds of a block's offset along a dimension.
static std::optional<Interval> offsetOf(Value block, unsigned dimension, Numbers &numbers,
                                        unsigned depth = 0) {
  if (depth >= maxDepth)
    return std::nullopt;
  Operation *op = block.getDefiningOp();
  if (op && op->getName().getStringRef() == "tt.make_tensor_ptr") {
    unsigned rank = makerSizes(op).size();
    Value offset = dimension < rank ? operand(op, 1 + 2 * rank + dimension) : Value();
    return offset ? numbers.range(offset) : std::nullopt;
  }
  if (Value step = advanceOf(block, dimension)) {
    std::optional<Interval> start = offsetOf(op->getOperand(0), dimension, numbers, depth + 1);
    std::optional<Interval> moved = numbers.range(step);
    return start && moved ? sum(*start, *moved) : std::nullopt;
  }
  // Carried by a loop: as it starts, and advanced by the same bounds in every iteration.
  scf::ForOp loop;
  unsigned index;
  bool after = op != nullptr;
  if (after) {
    loop = dyn_cast<scf::ForOp>(op);
    index = cast<OpResult>(block).getResultNumber();
  } else {
    auto argument = cast<BlockArgument>(block);
    loop = dyn_cast_or_null<scf::ForOp>(argument.getOwner()->getParentOp());
    if (!argument.getArgNumber())
      return std::nullopt;
    index = argument.getArgNumber() - 1;
  }
  std::optional<int64_t> trips = loop ? numbers.trips(loop) : std::nullopt;
  if (!trips || index >= loop.getInitArgs().size())
    return std::nullopt;
  std::optional<Interval> start =
      offsetOf(loop.getInitArgs()[index], dimension, numbers, depth + 1);
  Value yielded = loop.getYieldedValues()[index], carried = loop.getRegionIterArgs()[index];
  Interval total{0, 0};
  for (unsigned steps = 0; yielded != carried; ++steps) {
    Value step = advanceOf(yielded, dimension);
    std::optional<Interval> one = step ? numbers.range(step) : std::nullopt;
    std::optional<Interval> together = one ? sum(total, *one) : std::nullopt;
    if (!together || steps >= maxDepth)
      return std::nullopt;
    total = *together;
    yielded = yielded.getDefiningOp()->getOperand(0);
  }
  std::optional<Interval> moved = upTo(after ? *trips : std::max<int64_t>(*trips - 1, 0), total);
  return start && moved ? sum(*start, *moved) : std::nullopt;
}

bool xesmith::liesInside(Value block, unsigned dimension, Numbers &numbers) {
  TypeView view = viewType(block.getType());
  Operation *maker = blockMaker(block);
  if (!maker || dimension >= view.shape.size() || makerSizes(maker).size() != view.shape.size())
    return false;
  std::optional<Interval> size = numbers.range(makerSizes(maker)[dimension]);
  std::optional<Interval> offset = offsetOf(block, dimension, numbers);
  int64_t end;
  return size && offset && offset->low >= 0 &&
         offset->high <= std::numeric_limits<int32_t>::max() &&
         !__builtin_add_overflow(offset->high, view.shape[dimension], &end) && end <= size->low;
}

SmallVector<int32_t> xesmith::neededChecks(Operation *op, Numbers &numbers) {
  SmallVector<int32_t> needed = boundaryChecks(op);
  llvm::erase_if(needed, [&](int32_t dimension) {
    return dimension >= 0 && liesInside(op->getOperand(0), dimension, numbers);
  });
  return needed;
}

//===----------------------------------------------------------------------===//
// In loops
//===----------------------------------------------------------------------===//

/// An offset is a few operations deep; each doubles the walk where both operands are one value.
constexpr unsigned maxOffsetDepth = 8;

static bool growsEvenly(scf::ForOp loop, Value value, unsigned depth) {
  if (loop.isDefinedOutsideOfLoop(value) || value == loop.getInductionVar())
    return true;
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != loop.getBody() || depth >= maxOffsetDepth)
    return false;
  if (isa<arith::AddIOp, arith::SubIOp>(op))
    return growsEvenly(loop, op->getOperand(0), depth + 1) &&
           growsEvenly(loop, op->getOperand(1), depth + 1);
  if (isa<arith::MulIOp>(op))
    for (unsigned i : {0u, 1u})
      if (loop.isDefinedOutsideOfLoop(op->getOperand(i)))
        return growsEvenly(loop, op->getOperand(1 - i), depth + 1);
  return false;
}

bool xesmith::growsEvenly(scf::ForOp loop, Value value) { return ::growsEvenly(loop, value, 0); }

ValueRange xesmith::blockOffsets(Operation *op) {
  StringRef name = op->getName().getStringRef();
  if (op->getNumResults() != 1)
    return {};
  size_t rank = viewType(op->getResult(0).getType()).shape.size();
  size_t before = name == "tt.make_tensor_ptr" ? 1 + 2 * rank : 1;
  bool known = name == "tt.make_tensor_ptr" || name == "tt.advance";
  if (!known || !rank || op->getNumOperands() != before + rank)
    return {};
  return ValueRange(op->getOperands()).take_back(rank);
}

bool xesmith::movesEvenly(scf::ForOp loop, Operation *op) {
  ValueRange offsets = blockOffsets(op);
  auto isOutside = [&](Value value) { return loop.isDefinedOutsideOfLoop(value); };
  return !offsets.empty() && !llvm::all_of(offsets, isOutside) &&
         llvm::all_of(op->getOperands().drop_back(offsets.size()), isOutside) &&
         llvm::all_of(offsets, [&](Value value) {
           return value.getType().isInteger(32) && xesmith::growsEvenly(loop, value);
         });
}
