//===- CheckMasks.cpp - Masks that are true everywhere --------------------===//

#include "XeSmith/BlockBounds.h"
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
  bool given = !values.empty() || !grid.empty();
  auto tell = [&](Operation *op, const char *what, llvm::json::Object about) {
    Finding finding;
    finding.kind = "needless-mask";
    finding.isNote = true;
    finding.message = std::string("the ") + what + " of this " + (isStore(op) ? "store" : "load") +
                      " is true for every element";
    finding.why = given ? "the given sizes are multiples of the block sizes"
                        : "it compares with what is known when the kernel is compiled";
    finding.mend = "leave it out where sizes divide, by a constexpr that @triton.heuristics sets "
                   "(xesmith-drop-true-masks does it for these values)";
    finding.numbers = std::move(about);
    findings.add(op, std::move(finding));
  };
  module.walk([&](Operation *op) {
    if (Value mask = maskOf(op); mask && numbers->alwaysTrue(mask))
      tell(op, "mask", llvm::json::Object{{"elements", viewType(mask.getType()).elements()}});
    SmallVector<int32_t> checked = boundaryChecks(op), needed = neededChecks(op, *numbers);
    if (checked.size() == needed.size())
      return;
    llvm::json::Array needless;
    for (int32_t dimension : checked)
      if (!llvm::is_contained(needed, dimension))
        needless.push_back(int64_t(dimension));
    std::string what = "boundary check";
    if (!needed.empty())
      what += " along dimension " + std::to_string(*needless[0].getAsInteger());
    int64_t elements = viewType(op->getOperand(0).getType()).elements();
    tell(op, what.c_str(),
         llvm::json::Object{{"elements", elements}, {"dimensions", std::move(needless)}});
  });
}

} // namespace
} // namespace mlir::xesmith
