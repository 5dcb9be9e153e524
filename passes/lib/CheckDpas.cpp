//===- CheckDpas.cpp - Which dots the matrix engines can't take -----------===//

#include "XeSmith/Findings.h"
#include "XeSmith/Kernel.h"
#include "XeSmith/Passes.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_CHECKDPAS
#include "XeSmith/Passes.h.inc"

namespace {

class CheckDpas : public impl::CheckDpasBase<CheckDpas> {
  void runOnOperation() override;
};

void CheckDpas::runOnOperation() {
  ModuleOp module = getOperation();
  bool lowered = isIntelTTGIR(module);
  if (lowered && !hasDpas(module))
    return;
  Findings findings(module);
  forEachKernel(module, [&](Kernel &kernel) {
    for (Operation *dot : kernel.operations) {
      if (!isDot(dot) || !dotShape(dot) || dot->getNumResults() != 1)
        continue;
      std::optional<Encoding> layout = encodingOf(dot->getResult(0));
      std::optional<Obstacle> found = kernel.dpasObstacle(dot);
      if (lowered ? layout && layout->isDpas() : !found)
        continue;
      DotShape shape = *dotShape(dot);
      const TypeView a = kernel.view(dot->getOperand(0)), result = kernel.view(dot->getResult(0));
      Finding finding;
      finding.kind = "dot-not-dpas";
      finding.message = "the dot of " + a.shapeText() + "x" + a.element + " to " +
                        result.shapeText() + " is not computed by the matrix engines";
      finding.why = found ? found->why : keptLayout(layout);
      finding.mend = found ? found->mend : "";
      finding.numbers = llvm::json::Object{{"m", shape.m}, {"n", shape.n}, {"k", shape.k}};
      findings.add(dot, std::move(finding));
    }
  });
}

} // namespace
} // namespace mlir::xesmith
