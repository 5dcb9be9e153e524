//===- CheckLayoutConversions.cpp - Tiles that change layout in loops -----===//

#include "XeSmith/Findings.h"
#include "XeSmith/Numbers.h"
#include "XeSmith/Passes.h"
#include "XeSmith/TritonIR.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_CHECKLAYOUTCONVERSIONS
#include "XeSmith/Passes.h.inc"

namespace {

class CheckLayoutConversions : public impl::CheckLayoutConversionsBase<CheckLayoutConversions> {
  void runOnOperation() override;
};

/// The first operand of a DPAS that the same DPAS computed: every element stays with its lane.
bool staysInRegisters(StringRef source, StringRef destination) {
  if (source == destination)
    return true;
  return isDpas(source) && isDpasOperand(destination) && destination.contains(source) &&
         encodingInts(destination, "opIdx") == SmallVector<int64_t>{0};
}

/// The layout in which staged memory is first read back, "" where it is not.
std::string loadedAs(Value memory) {
  for (Operation *user : memory.getUsers())
    if (user->getName().getStringRef() == "ttg.local_load" && user->getNumResults() == 1)
      return viewType(user->getResult(0).getType()).encoding;
  return "";
}

void CheckLayoutConversions::runOnOperation() {
  Findings findings(getOperation());
  Numbers numbers;
  getOperation().walk([&](Operation *op) {
    StringRef name = op->getName().getStringRef();
    bool staged = name == "ttg.local_alloc";
    if ((!staged && name != "ttg.convert_layout") || op->getNumOperands() != 1 ||
        op->getNumResults() != 1)
      return;
    Operation *loop = loopAround(op);
    if (!loop)
      return;
    TypeView source = viewType(op->getOperand(0).getType());
    if (source.kind != TypeKind::Tensor)
      return;
    std::string destination =
        staged ? loadedAs(op->getResult(0)) : viewType(op->getResult(0).getType()).encoding;
    if (!staged && staysInRegisters(source.encoding, destination))
      return;
    unsigned bits = source.ofPointers ? 64 : std::max(8u, source.elementBits());
    int64_t bytes = source.elements() * bits / 8;
    Finding finding;
    finding.kind = "layout-conversion-in-loop";
    finding.message = "a tile of " + source.shapeText() + "x" +
                      (source.ofPointers ? "pointer" : source.element) +
                      " changes its layout in every iteration (" + std::to_string(bytes) + " B)";
    finding.why = "from " + shortEncoding(source.encoding) + " to " +
                  (destination.empty() ? "shared local memory" : shortEncoding(destination)) +
                  ", through shared local memory";
    finding.mend = "block pointers or descriptors load a tile in the layout that the dot wants";
    finding.numbers = llvm::json::Object{{"bytes_per_iteration", bytes}};
    if (std::optional<int64_t> trips = numbers.trips(loop))
      finding.numbers["trips"] = *trips;
    findings.add(op, std::move(finding));
  });
}

} // namespace
} // namespace mlir::xesmith
