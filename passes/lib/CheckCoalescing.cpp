//===- CheckCoalescing.cpp - Accesses of single elements ------------------===//

#include "XeSmith/Findings.h"
#include "XeSmith/Numbers.h"
#include "XeSmith/Passes.h"
#include "XeSmith/TritonIR.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_CHECKCOALESCING
#include "XeSmith/Passes.h.inc"

namespace {

constexpr int64_t widestBytes = 16; // one lane, four dwords
constexpr int64_t narrowBytes = 4;

class CheckCoalescing : public impl::CheckCoalescingBase<CheckCoalescing> {
  void runOnOperation() override;
};

void CheckCoalescing::runOnOperation() {
  ModuleOp module = getOperation();
  int64_t warps = moduleInteger(module, "ttg.num-warps", 0);
  int64_t lanes = moduleInteger(module, "ttg.threads-per-warp", 0);
  if (warps < 1 || lanes < 1 || warps > 1024 || lanes > 1024)
    return;
  Findings findings(module);
  Numbers numbers;
  module.walk([&](Operation *op) {
    if ((!isLoad(op) && !isStore(op)) || !operand(op, 0))
      return;
    TypeView pointers = viewType(op->getOperand(0).getType());
    if (pointers.kind != TypeKind::Tensor || encodingName(pointers.encoding) != "blocked")
      return;
    SmallVector<int64_t> perThread = encodingInts(pointers.encoding, "sizePerThread");
    SmallVector<int64_t> order = encodingInts(pointers.encoding, "order");
    size_t rank = pointers.shape.size();
    if (perThread.size() != rank || order.size() != rank || order[0] < 0 ||
        order[0] >= int64_t(rank))
      return;
    Slope slope = numbers.slope(op->getOperand(0), order[0]);
    int64_t elementBytes = std::max(1u, pointers.elementBits() / 8);
    bool dense = slope.kind == Slope::Constant && slope.constant == 1;
    if (slope.kind == Slope::Unknown)
      return; // not followed: nothing is claimed
    int64_t vector = dense ? std::clamp<int64_t>(perThread[order[0]], 1, widestBytes) : 1;
    int64_t bytes = std::min(vector * elementBytes, widestBytes);
    // A lane's share of the tile.
    int64_t possible = std::min(
        widestBytes, std::max<int64_t>(1, pointers.elements() / (warps * lanes)) * elementBytes);
    if (bytes >= std::min(narrowBytes, possible) && (dense || slope.isZero()))
      return;
    if (slope.isZero() || bytes >= possible)
      return;
    Finding finding;
    finding.kind = "uncoalesced-access";
    finding.isNote = !loopAround(op);
    finding.message = "each lane moves " + std::to_string(bytes) + " B at a time where " +
                      std::to_string(possible) + " B could be";
    finding.why = dense ? "the compiler did not prove that more neighbours are aligned"
                        : "along the fastest dimension of its layout the addresses step by " +
                              (slope.kind == Slope::Constant ? std::to_string(slope.constant)
                                                             : "`" + slope.symbol + "`") +
                              " elements";
    finding.mend = "run the fastest index along the dimension of stride 1, make that stride a "
                   "constant, and pass sizes that 16 divides";
    finding.numbers = llvm::json::Object{{"bytes_per_access", bytes}, {"possible_bytes", possible}};
    findings.add(op, std::move(finding));
  });
}

} // namespace
} // namespace mlir::xesmith
