//===- CheckPrefetch.cpp - Loops with dots whose loads come unannounced ---===//

#include "XeSmith/Findings.h"
#include "XeSmith/Passes.h"
#include "XeSmith/TritonIR.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_CHECKPREFETCH
#include "XeSmith/Passes.h.inc"

namespace {

class CheckPrefetch : public impl::CheckPrefetchBase<CheckPrefetch> {
  void runOnOperation() override;
};

struct Body {
  int64_t dots = 0, prefetches = 0;
  SmallVector<Operation *> loads;
};

/// What stands in a loop, without the loops inside it.
Body bodyOf(scf::ForOp loop) {
  Body body;
  loop.getBody()->walk([&](Operation *op) {
    if (loopAround(op) != loop.getOperation())
      return;
    body.dots += isDot(op);
    body.prefetches += isPrefetch(op);
    if (isLoad(op) && operand(op, 0) && viewType(op->getOperand(0).getType()).shape.size() >= 2)
      body.loads.push_back(op);
  });
  return body;
}

/// Tiles that are announced before the loop, straight in front of it.
int64_t announcedBefore(scf::ForOp loop) {
  int64_t count = 0;
  for (Operation *op = loop->getPrevNode(); op; op = op->getPrevNode())
    count += isPrefetch(op);
  return count;
}

void CheckPrefetch::runOnOperation() {
  ModuleOp module = getOperation();
  if (!isIntelTTGIR(module))
    return; // prefetches are made with the layouts
  Findings findings(module);
  module.walk([&](scf::ForOp loop) {
    Body body = bodyOf(loop);
    if (!body.dots || body.loads.empty())
      return;
    Finding finding;
    finding.kind = "missing-prefetch";
    finding.numbers =
        llvm::json::Object{{"loads", int64_t(body.loads.size())}, {"prefetches", body.prefetches}};
    if (!body.prefetches) {
      finding.message = "a loop with " + std::to_string(body.dots) + " dots loads " +
                        std::to_string(body.loads.size()) + " tiles and prefetches none";
      finding.why = "the pipeliner prefetches blocks that feed a dot, by num_stages; it made none "
                    "here, so each iteration waits for memory";
      finding.mend = "num_stages of 2 or more, and block pointers or descriptors that advance with "
                     "the loop";
      findings.add(loop, std::move(finding));
      return;
    }
    if (body.prefetches < int64_t(body.loads.size())) {
      int64_t distance = announcedBefore(loop) / body.prefetches;
      finding.isNote = true;
      finding.message = std::to_string(body.prefetches) + " of the loop's " +
                        std::to_string(body.loads.size()) + " tiles are prefetched, " +
                        std::to_string(distance) + " iterations ahead";
      finding.why = "only loads that the compiler makes 2D blocks of, and that feed a dot, are "
                    "prefetched";
      finding.numbers["distance_iterations"] = distance;
      findings.add(loop, std::move(finding));
    }
  });
}

} // namespace
} // namespace mlir::xesmith
