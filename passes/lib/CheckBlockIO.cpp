//===- CheckBlockIO.cpp - Which accesses can't be 2D block messages -------===//

#include "XeSmith/Findings.h"
#include "XeSmith/Kernel.h"
#include "XeSmith/Passes.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_CHECKBLOCKIO
#include "XeSmith/Passes.h.inc"

namespace {

class CheckBlockIO : public impl::CheckBlockIOBase<CheckBlockIO> {
  void runOnOperation() override;
  void check(Kernel &kernel, Findings &findings);
};

void CheckBlockIO::runOnOperation() {
  ModuleOp module = getOperation();
  if (module->hasAttr("ttg.num-warps") && !(isIntelTTGIR(module) && hasBlockIO(module)))
    return; // the compiler takes the device for one without 2D block messages
  Findings findings(module);
  forEachKernel(module, [&](Kernel &kernel) { check(kernel, findings); });
}

void CheckBlockIO::check(Kernel &kernel, Findings &findings) {
  bool lowered = isIntelTTGIR(kernel.module);
  for (Operation *op : kernel.operations) {
    bool store = isStore(op);
    if ((!isLoad(op) && !store) || !operand(op, 0))
      continue;
    TypeView block = kernel.view(op->getOperand(0));
    if (!block.ofPointers)
      continue;
    std::optional<Obstacle> found;
    // The backend may see the rectangle of a tensor of pointers by itself, and then says so.
    if (block.kind != TypeKind::Tensor || !lowered || !blockIOIntent(op))
      found = kernel.messageObstacle(op);
    if (!found && lowered)
      found = kernel.layoutObstacle(op);
    if (!found)
      continue;
    Finding finding;
    finding.kind = store ? "store-not-2d-block" : "load-not-2d-block";
    // Nothing of one dimension can be a 2D block: that is worth knowing, and no fault.
    finding.isNote = block.shape.size() < 2 || (store && !loopAround(op));
    finding.message = std::string("this ") + (store ? "store" : "load") + " of " +
                      block.shapeText() + "x" + block.element + " cannot be a 2D block message";
    finding.why = found->why;
    finding.mend = found->mend;
    finding.numbers = llvm::json::Object{{"element_bits", int64_t(block.elementBits())},
                                         {"tile_bytes", block.bytes()},
                                         {"block_io_intent", blockIOIntent(op).has_value()}};
    findings.add(op, std::move(finding));
  }
}

} // namespace
} // namespace mlir::xesmith
