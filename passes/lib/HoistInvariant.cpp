//===- HoistInvariant.cpp - Out of the loop what it never changes ---------===//

#include "XeSmith/BlockBounds.h"
#include "XeSmith/Passes.h"
#include "XeSmith/Rewrite.h"
#include "XeSmith/TritonIR.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_HOISTINVARIANT
#include "XeSmith/Passes.h.inc"

namespace {

class HoistInvariant : public impl::HoistInvariantBase<HoistInvariant> {
  void runOnOperation() override;
};

/// Whether it may run where it did not before: before a loop that runs no iteration.
bool mayMove(Operation *op) {
  if (op->hasTrait<OpTrait::IsTerminator>() || op->getNumRegions())
    return false;
  return isPureTriton(op) || (isMemoryEffectFree(op) && isSpeculatable(op));
}

//===----------------------------------------------------------------------===//
// Block pointers that move with the loop's counter
//===----------------------------------------------------------------------===//

/// The offset at the first iteration, computed before the loop.
Value firstOffset(OpBuilder &builder, scf::ForOp loop, Value offset) {
  if (loop.isDefinedOutsideOfLoop(offset))
    return offset;
  if (offset == loop.getInductionVar())
    return loop.getLowerBound();
  Operation *op = offset.getDefiningOp();
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand, firstOffset(builder, loop, operand));
  return builder.clone(*op, mapping)->getResult(0);
}

/// How much the offset grows in an iteration, computed before the loop; null for nothing.
Value growth(OpBuilder &builder, scf::ForOp loop, Value offset) {
  if (loop.isDefinedOutsideOfLoop(offset))
    return {};
  if (offset == loop.getInductionVar())
    return loop.getStep();
  Operation *op = offset.getDefiningOp();
  Value a = growth(builder, loop, op->getOperand(0)), b = growth(builder, loop, op->getOperand(1));
  Location location = op->getLoc();
  auto zero = [&] {
    return arith::ConstantOp::create(builder, location, builder.getZeroAttr(offset.getType()));
  };
  if (isa<arith::AddIOp>(op))
    return !a ? b : !b ? a : arith::AddIOp::create(builder, location, a, b).getResult();
  if (isa<arith::SubIOp>(op))
    return !b ? a : arith::SubIOp::create(builder, location, a ? a : zero(), b).getResult();
  if (!a && !b)
    return {};
  return arith::MulIOp::create(builder, location, a ? a : op->getOperand(0),
                               b ? b : op->getOperand(1));
}

/// Makes or advances a block pointer before the loop, and advances it at the end of every
/// iteration.
scf::ForOp carry(IRRewriter &rewriter, scf::ForOp loop, Operation *maker) {
  rewriter.setInsertionPoint(loop);
  ValueRange offsets = blockOffsets(maker);
  SmallVector<Value> first(maker->getOperands().drop_back(offsets.size())), steps;
  for (Value offset : offsets) {
    first.push_back(firstOffset(rewriter, loop, offset));
    Value step = growth(rewriter, loop, offset);
    steps.push_back(
        step ? step
             : arith::ConstantOp::create(rewriter, maker->getLoc(), rewriter.getI32IntegerAttr(0)));
  }
  Operation *before = rewriter.clone(*maker);
  before->setOperands(first);
  auto advance = [&](OpBuilder &builder, Location, ArrayRef<BlockArgument> arguments) {
    OperationState state(maker->getLoc(), "tt.advance");
    state.addOperands(arguments.back());
    state.addOperands(steps);
    state.addTypes(maker->getResult(0).getType());
    return SmallVector<Value>{builder.create(state)->getResult(0)};
  };
  FailureOr<LoopLikeOpInterface> made = loop.replaceWithAdditionalYields(
      rewriter, before->getResult(0), /*replaceInitOperandUsesInLoop=*/false, advance);
  auto after = cast<scf::ForOp>(made->getOperation());
  rewriter.replaceOp(maker, after.getRegionIterArgs().back());
  return after;
}

void HoistInvariant::runOnOperation() {
  llvm::SmallPtrSet<Operation *, 16> moved;
  int64_t carried = 0;
  SmallVector<scf::ForOp> loops;
  getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
  IRRewriter rewriter(&getContext());
  // Inner loops first: what leaves one may leave the next.
  for (scf::ForOp loop : loops) {
    for (Operation &op : llvm::make_early_inc_range(*loop.getBody())) {
      bool outside = llvm::all_of(op.getOperands(),
                                  [&](Value value) { return loop.isDefinedOutsideOfLoop(value); });
      if (!outside || !mayMove(&op))
        continue;
      op.moveBefore(loop);
      moved.insert(&op);
    }
    SmallVector<Operation *> makers;
    for (Operation &op : *loop.getBody())
      if (movesEvenly(loop, &op))
        makers.push_back(&op);
    for (Operation *maker : makers)
      loop = carry(rewriter, loop, maker);
    carried += makers.size();
  }
  if (carried)
    eraseDead(getOperation());
  reportChanges(getOperation(), moved.size(), "hoisted operation");
  reportChanges(getOperation(), carried, "carried block pointer");
}

} // namespace
} // namespace mlir::xesmith
