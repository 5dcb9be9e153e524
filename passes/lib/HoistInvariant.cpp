//===- HoistInvariant.cpp - Out of the loop what it never changes ---------===//

#include "XeSmith/Passes.h"
#include "XeSmith/Rewrite.h"
#include "XeSmith/TritonIR.h"

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

void HoistInvariant::runOnOperation() {
  llvm::SmallPtrSet<Operation *, 16> moved;
  // Inner loops first: what leaves one may leave the next.
  getOperation().walk([&](scf::ForOp loop) {
    for (Operation &op : llvm::make_early_inc_range(*loop.getBody())) {
      bool outside = llvm::all_of(op.getOperands(), [&](Value value) {
        return !loop->isAncestor(value.getParentRegion()->getParentOp());
      });
      if (!outside || !mayMove(&op))
        continue;
      op.moveBefore(loop);
      moved.insert(&op);
    }
  });
  reportChanges(getOperation(), moved.size(), "hoisted operation");
}

} // namespace
} // namespace mlir::xesmith
