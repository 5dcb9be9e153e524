//===- Rewrite.cpp - What the transforms share ----------------------------===//

#include "XeSmith/Rewrite.h"
#include "XeSmith/TritonIR.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Iterators.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::xesmith;

void xesmith::eraseDead(Operation *root) {
  // Users come after what they use, so one walk from the end takes whole chains.
  root->walk<WalkOrder::PostOrder, ReverseIterator>([](Operation *op) {
    if (op->getParentOp() && (isOpTriviallyDead(op) || (op->use_empty() && isPureTriton(op))))
      op->erase();
  });
}

void xesmith::reportChanges(Operation *op, int64_t count, StringRef what) {
  if (count)
    emitRemark(op->getLoc()) << count << " " << what << (count == 1 ? "" : "s");
}
