//===- CheckCoalescing.cpp - Accesses of single elements ------------------===//

#include "XeSmith/Findings.h"
#include "XeSmith/Kernel.h"
#include "XeSmith/Passes.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_CHECKCOALESCING
#include "XeSmith/Passes.h.inc"

namespace {

constexpr int64_t widestBytes = 16; // one lane, four dwords
constexpr int64_t narrowBytes = 4;

class CheckCoalescing : public impl::CheckCoalescingBase<CheckCoalescing> {
  void runOnOperation() override;
  void check(Operation *op, Kernel &kernel, int64_t lanes, Findings &findings);
};

void CheckCoalescing::runOnOperation() {
  ModuleOp module = getOperation();
  int64_t warps = moduleInteger(module, "ttg.num-warps", 0);
  int64_t lanes = moduleInteger(module, "ttg.threads-per-warp", 0);
  if (warps < 1 || lanes < 1 || warps > 1024 || lanes > 1024)
    return;
  Findings findings(module);
  forEachKernel(module, [&](Kernel &kernel) {
    for (Operation *op : kernel.operations)
      check(op, kernel, warps * lanes, findings);
  });
}

void CheckCoalescing::check(Operation *op, Kernel &kernel, int64_t lanes, Findings &findings) {
  if (!isLoad(op) && !isStore(op))
    return;
  std::optional<int64_t> bytes = kernel.bytesPerAccess(op);
  if (!bytes)
    return; // not followed: nothing is claimed
  const TypeView pointers = kernel.view(op->getOperand(0));
  unsigned fastest = dimensionOrder(*movedEncoding(op), pointers.shape.size())[0];
  Slope slope = kernel.numbers.slope(op->getOperand(0), fastest);
  int64_t elementBytes = std::max(1u, pointers.elementBits() / 8);
  // A lane's share of the tile.
  int64_t possible = std::min(
      widestBytes, std::max<int64_t>(1, pointers.elements() / lanes) * elementBytes);
  if (*bytes >= std::min(narrowBytes, possible) && slope.isOne())
    return;
  if (slope.isZero() || *bytes >= possible)
    return;
  Finding finding;
  finding.kind = "uncoalesced-access";
  finding.isNote = !loopAround(op);
  finding.message = "each lane moves " + std::to_string(*bytes) + " B at a time where " +
                    std::to_string(possible) + " B could be";
  finding.why = slope.isOne() ? "the compiler did not prove that more neighbours are aligned"
                      : "along the fastest dimension of its layout the addresses step by " +
                            kernel.strideText(slope) + " elements";
  finding.mend = "run the fastest index along the dimension of stride 1, make that stride a "
                 "constant, and pass sizes that 16 divides";
  finding.numbers = llvm::json::Object{{"bytes_per_access", *bytes}, {"possible_bytes", possible}};
  findings.add(op, std::move(finding));
}

} // namespace
} // namespace mlir::xesmith
