//===- CheckLayoutConversions.cpp - Tiles that change layout in loops -----===//

#include "XeSmith/Findings.h"
#include "XeSmith/Kernel.h"
#include "XeSmith/Passes.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_CHECKLAYOUTCONVERSIONS
#include "XeSmith/Passes.h.inc"

namespace {

class CheckLayoutConversions : public impl::CheckLayoutConversionsBase<CheckLayoutConversions> {
  void runOnOperation() override;
};

void CheckLayoutConversions::runOnOperation() {
  Findings findings(getOperation());
  forEachKernel(getOperation(), [&](Kernel &kernel) {
    for (Operation *op : kernel.operations) {
      StringRef name = op->getName().getStringRef();
      bool staged = name == "ttg.local_alloc";
      Operation *loop = loopAround(op);
      if ((!staged && name != "ttg.convert_layout") || !loop || op->getNumOperands() != 1 ||
          op->getNumResults() != 1 || kernel.view(op->getOperand(0)).kind != TypeKind::Tensor)
        continue;
      std::optional<int64_t> bytes = kernel.conversionBytes(op);
      if (bytes == 0)
        continue; // it moves within registers
      const TypeView source = kernel.view(op->getOperand(0));
      std::optional<Encoding> destination = kernel.convertedTo(op);
      Finding finding;
      finding.kind = "layout-conversion-in-loop";
      finding.message = "a tile of " + source.shapeText() + "x" +
                        (source.ofPointers ? "pointer" : source.element) +
                        " changes its layout in every iteration";
      if (bytes)
        finding.message += " (" + std::to_string(*bytes) + " B)";
      finding.why = "from " + shortEncoding(parseEncoding(source.encoding)) + " to " +
                    (destination ? destination->shortText() : "shared local memory") +
                    ", through shared local memory";
      finding.mend = "block pointers or descriptors load a tile in the layout that the dot wants";
      if (bytes)
        finding.numbers["bytes_per_iteration"] = *bytes;
      if (std::optional<int64_t> trips = kernel.numbers.trips(loop))
        finding.numbers["trips"] = *trips;
      findings.add(op, std::move(finding));
    }
  });
}

} // namespace
} // namespace mlir::xesmith
