//===- CheckSlm.cpp - Shared local memory against the device --------------===//

#include "XeSmith/Findings.h"
#include "XeSmith/Footprint.h"
#include "XeSmith/Passes.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_CHECKSLM
#include "XeSmith/Passes.h.inc"

namespace {

class CheckSlm : public impl::CheckSlmBase<CheckSlm> {
public:
  using CheckSlmBase::CheckSlmBase;
  void runOnOperation() override;

private:
  void check(Operation *function, int64_t allocated, Findings &findings);
};

struct Part {
  Operation *op;
  int64_t first, last, bytes;
};

/// What an operation takes of shared local memory, and how long.
std::optional<Part> partOf(Operation *op, int64_t place, const Lifetimes &lifetimes) {
  if (op->getName().getStringRef() == "ttg.local_alloc" && op->getNumResults() == 1) {
    TypeView memory = viewType(op->getResult(0).getType());
    auto [first, last] = lifetimes.placesOf(op->getResult(0));
    if (memory.kind == TypeKind::Memory && memory.bytes() > 0)
      return Part{op, first, last, memory.bytes()};
  }
  if (int64_t bytes = scratchBytes(op))
    return Part{op, place, place, bytes};
  return std::nullopt;
}

std::string describe(const Part &part) {
  bool held = part.op->getNumResults() &&
              viewType(part.op->getResult(0).getType()).kind == TypeKind::Memory;
  TypeView tile =
      held ? viewType(part.op->getResult(0).getType()) : viewType(part.op->getOperand(0).getType());
  StringRef name = part.op->getName().getStringRef();
  std::string text = tileText(tile) + (held                  ? " kept there"
                                       : name == "tt.reduce" ? " reduced across sub-groups"
                                                             : " on its way to another layout");
  if (FileLineColLoc at = kernelLocation(part.op->getLoc()))
    text += " (line " + std::to_string(at.getLine()) + ")";
  return text + ", " + std::to_string(part.bytes) + " B";
}

void CheckSlm::check(Operation *function, int64_t allocated, Findings &findings) {
  Lifetimes lifetimes(function);
  SmallVector<Part> parts;
  for (auto [place, op] : llvm::enumerate(lifetimes.operations()))
    if (std::optional<Part> part = partOf(op, place, lifetimes))
      parts.push_back(*part);
  // Where most of it lives at once.
  SmallVector<int64_t> change(lifetimes.operations().size() + 1, 0);
  for (const Part &part : parts) {
    change[part.first] += part.bytes;
    change[part.last + 1] -= part.bytes;
  }
  int64_t now = 0, peak = 0, at = 0;
  for (auto [place, difference] : llvm::enumerate(change)) {
    now += difference;
    if (now > peak) {
      peak = now;
      at = place;
    }
  }
  SmallVector<Part> most;
  llvm::copy_if(parts, std::back_inserter(most),
                [&](const Part &part) { return part.first <= at && at <= part.last; });
  bool known = allocated >= 0;
  int64_t bytes = known ? allocated : peak;
  if (!bytes)
    return;
  llvm::stable_sort(most, [](const Part &a, const Part &b) { return a.bytes > b.bytes; });
  bool over = bytes > slmBytes;
  Finding finding;
  finding.kind = over ? "slm-over-limit" : "slm-footprint";
  finding.isNote = !over;
  finding.message = std::string(known ? "" : "an estimated ") + std::to_string(bytes) +
                    " B of shared local memory, of " + std::to_string(slmBytes) +
                    " B that a work-group can have";
  for (const Part &part : ArrayRef(most).take_front(3))
    finding.why += (finding.why.empty() ? "at once: " : "; ") + describe(part);
  if (most.size() > 3)
    finding.why += "; and " + std::to_string(most.size() - 3) + " more";
  finding.mend =
      over ? "a smaller tile, fewer stages, or block pointers and descriptors, which load "
             "and store in the layout that the dot has"
           : "";
  finding.numbers = llvm::json::Object{
      {"slm_bytes", bytes}, {"limit_bytes", slmBytes.getValue()}, {"estimated", !known}};
  findings.add(most.empty() ? function : most.front().op, std::move(finding));
}

void CheckSlm::runOnOperation() {
  ModuleOp module = getOperation();
  if (!isIntelTTGIR(module))
    return;
  Findings findings(module);
  int64_t allocated = moduleInteger(module, "ttg.shared", -1);
  for (Operation &op : *module.getBody())
    if (op.getName().getStringRef() == "tt.func")
      check(&op, allocated, findings);
}

} // namespace
} // namespace mlir::xesmith
