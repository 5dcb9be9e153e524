//===- CheckMasks.cpp - Masks that are true everywhere --------------------===//

#include "XeSmith/Findings.h"
#include "XeSmith/Launch.h"
#include "XeSmith/Passes.h"
#include "XeSmith/TritonIR.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_CHECKMASKS
#include "XeSmith/Passes.h.inc"

namespace {

class CheckMasks : public impl::CheckMasksBase<CheckMasks> {
public:
  using CheckMasksBase::CheckMasksBase;
  void runOnOperation() override;
};

void CheckMasks::runOnOperation() {
  ModuleOp module = getOperation();
  FailureOr<Numbers> numbers = numbersOfLaunch(module, values, grid);
  if (failed(numbers))
    return signalPassFailure();
  Findings findings(module);
  module.walk([&](Operation *op) {
    Value mask = maskOf(op);
    if (!mask || !numbers->alwaysTrue(mask))
      return;
    bool given = !values.empty() || !grid.empty();
    Finding finding;
    finding.kind = "needless-mask";
    finding.isNote = true;
    finding.message = std::string("the mask of this ") + (isStore(op) ? "store" : "load") +
                      " is true for every element";
    finding.why = given ? "the given sizes are multiples of the block sizes"
                        : "it compares with what is known when the kernel is compiled";
    finding.mend = "leave it out where sizes divide, by a constexpr that @triton.heuristics sets "
                   "(xesmith-drop-true-masks does it for these values)";
    finding.numbers = llvm::json::Object{{"elements", viewType(mask.getType()).elements()}};
    findings.add(op, std::move(finding));
  });
}

} // namespace
} // namespace mlir::xesmith
