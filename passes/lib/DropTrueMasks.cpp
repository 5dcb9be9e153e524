//===- DropTrueMasks.cpp - Loads and stores without needless masks --------===//

#include "XeSmith/BlockBounds.h"
#include "XeSmith/Launch.h"
#include "XeSmith/Passes.h"
#include "XeSmith/Rewrite.h"
#include "XeSmith/TritonIR.h"

#include "mlir/IR/Builders.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_DROPTRUEMASKS
#include "XeSmith/Passes.h.inc"

namespace {

class DropTrueMasks : public impl::DropTrueMasksBase<DropTrueMasks> {
public:
  using DropTrueMasksBase::DropTrueMasksBase;
  void runOnOperation() override;
};

void DropTrueMasks::runOnOperation() {
  ModuleOp module = getOperation();
  FailureOr<Numbers> numbers = numbersOfLaunch(module, values, grid);
  if (failed(numbers))
    return signalPassFailure();
  SmallVector<Operation *> masked;
  SmallVector<std::pair<Operation *, SmallVector<int32_t>>> checked;
  module.walk([&](Operation *op) {
    if (SmallVector<int32_t> needed = neededChecks(op, *numbers);
        needed.size() < boundaryChecks(op).size())
      checked.push_back({op, std::move(needed)});
    Value mask = maskOf(op);
    if (mask && numbers->alwaysTrue(mask))
      masked.push_back(op);
  });
  Builder builder(&getContext());
  for (Operation *op : masked) {
    if (isStore(op)) {
      op->eraseOperands(2, op->getNumOperands() - 2);
      continue;
    }
    // (pointer, mask, other): without the mask nothing takes `other`.
    op->eraseOperands(1, op->getNumOperands() - 1);
    op->setAttr("operandSegmentSizes", builder.getDenseI32ArrayAttr({1, 0, 0}));
  }
  for (auto &[op, needed] : checked)
    op->setAttr("boundaryCheck", builder.getDenseI32ArrayAttr(needed));
  if (!masked.empty())
    eraseDead(module);
  reportChanges(module, masked.size(), "needless mask");
  reportChanges(module, checked.size(), "needless boundary check");
}

} // namespace
} // namespace mlir::xesmith
