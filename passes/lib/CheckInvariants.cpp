//===- CheckInvariants.cpp - What a loop rebuilds every time --------------===//

#include "XeSmith/BlockBounds.h"
#include "XeSmith/Findings.h"
#include "XeSmith/Passes.h"
#include "XeSmith/TritonIR.h"

#include "llvm/ADT/DenseSet.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_CHECKINVARIANTS
#include "XeSmith/Passes.h.inc"

namespace {

class CheckInvariants : public impl::CheckInvariantsBase<CheckInvariants> {
  void runOnOperation() override;
};

void CheckInvariants::runOnOperation() {
  Findings findings(getOperation());
  getOperation().walk([&](scf::ForOp loop) {
    llvm::DenseSet<Operation *> invariant;
    for (Operation &op : *loop.getBody()) {
      bool pure = isPureTriton(&op) || (isMemoryEffectFree(&op) && op.getNumRegions() == 0);
      if (!pure || op.hasTrait<OpTrait::IsTerminator>())
        continue;
      bool same = llvm::all_of(op.getOperands(), [&](Value value) {
        return !loop->isAncestor(value.getParentRegion()->getParentOp()) ||
               (value.getDefiningOp() && invariant.contains(value.getDefiningOp()));
      });
      if (same)
        invariant.insert(&op);
    }
    for (Operation &op : *loop.getBody()) {
      if (movesEvenly(loop, &op)) {
        TypeView block = viewType(op.getResult(0).getType());
        Finding finding;
        finding.kind = "block-pointer-rebuilt-in-loop";
        finding.message = "every iteration makes the block pointer of " + block.shapeText() + "x" +
                          block.element + " anew, and only its offsets move";
        finding.why =
            "the compiler's pipeliner follows blocks that a loop carries; of the others it "
            "prefetches none, and some versions fail on them";
        finding.mend = "make it before the loop and tl.advance it (xesmith-hoist-invariant does)";
        finding.numbers = llvm::json::Object{{"elements", block.elements()}};
        findings.add(&op, std::move(finding));
        continue;
      }
      if (!invariant.contains(&op) || op.getNumResults() != 1)
        continue;
      bool maker = isBlockMaker(&op);
      TypeView made = viewType(op.getResult(0).getType());
      // Of a chain only its end: what the loop then uses.
      bool usedByOthers =
          llvm::any_of(op.getUsers(), [&](Operation *user) { return !invariant.contains(user); });
      if (!maker && !(op.getName().getStringRef() == "tt.addptr" && usedByOthers &&
                      made.kind == TypeKind::Tensor))
        continue;
      Finding finding;
      finding.kind = "invariant-rebuilt-in-loop";
      finding.message =
          maker ? std::string("every iteration makes the same ") +
                      (made.kind == TypeKind::Descriptor ? "descriptor" : "block pointer")
                : "every iteration computes the same " + made.shapeText() + " pointers";
      finding.why = maker ? "nothing that it is made of changes in the loop, and the compiler's "
                            "pipeliner follows only blocks that come from before the loop"
                          : "nothing that they are computed of changes in the loop";
      finding.mend = "make it before the loop (xesmith-hoist-invariant does)";
      finding.numbers = llvm::json::Object{{"elements", made.elements()}};
      findings.add(&op, std::move(finding));
    }
  });
}

} // namespace
} // namespace mlir::xesmith
