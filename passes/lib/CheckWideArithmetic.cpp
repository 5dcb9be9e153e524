//===- CheckWideArithmetic.cpp - float64, and 64-bit integers in tensors --===//

#include "XeSmith/Findings.h"
#include "XeSmith/Kernel.h"
#include "XeSmith/Passes.h"

#include "llvm/ADT/MapVector.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_CHECKWIDEARITHMETIC
#include "XeSmith/Passes.h.inc"

namespace {

class CheckWideArithmetic : public impl::CheckWideArithmeticBase<CheckWideArithmetic> {
  void runOnOperation() override;
};

struct Place {
  Operation *first = nullptr;
  int64_t operations = 0;
  int64_t elements = 0;
};

bool computes(Operation *op) {
  if (isa<arith::ConstantOp>(op) || op->getNumResults() != 1)
    return false;
  Dialect *dialect = op->getDialect();
  return isa_and_nonnull<arith::ArithDialect, math::MathDialect>(dialect) || isDot(op) ||
         op->getName().getStringRef() == "tt.precise_sqrt" ||
         op->getName().getStringRef() == "tt.precise_divf";
}

/// Something of element type `bits` wide, in the result or (for comparisons, casts) an operand.
template <typename ElementType> bool touches(Operation *op, unsigned bits, bool tensorsOnly) {
  auto is = [&](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (tensorsOnly && !tensor)
      return false;
    Type element = tensor ? tensor.getElementType() : type;
    return isa<ElementType>(element) && element.getIntOrFloatBitWidth() == bits;
  };
  return llvm::any_of(op->getResultTypes(), is) || llvm::any_of(op->getOperandTypes(), is);
}

void CheckWideArithmetic::runOnOperation() {
  // One finding a line: a cast of one value makes a dozen operations float64.
  using Key = std::pair<StringRef, Attribute>;
  llvm::MapVector<Key, Place> places;
  auto count = [&](StringRef kind, Operation *op) {
    FileLineColLoc at = kernelLocation(op->getLoc());
    Attribute line = at ? Attribute(FileLineColLoc::get(at.getFilename(), at.getLine(), 0))
                        : Attribute(op->getLoc());
    Place &place = places[{kind, line}];
    if (!place.first)
      place.first = op;
    ++place.operations;
    place.elements += viewType(op->getResult(0).getType()).elements();
  };
  getOperation().walk([&](Operation *op) {
    if (worksOnF64(op) && op->getNumResults() == 1)
      count("f64-arithmetic", op);
    else if (computes(op) && touches<IntegerType>(op, 64, /*tensorsOnly=*/true) &&
             !isa<arith::IndexCastOp>(op))
      count("i64-address-arithmetic", op);
  });
  Findings findings(getOperation());
  for (auto &[key, place] : places) {
    bool isFloat = key.first == "f64-arithmetic";
    Finding finding;
    finding.kind = key.first;
    finding.message = std::to_string(place.operations) +
                      (isFloat ? " float64" : " 64-bit integer") +
                      (place.operations == 1 ? " operation" : " operations") +
                      (isFloat ? " here" : " on tensors here");
    finding.why = isFloat ? "float64 runs at a sixteenth of the rate of float32 or less, and some "
                            "devices have none; a cast, a float64 constant or a float64 tensor "
                            "makes everything after it float64"
                          : "the vector engines do 64-bit integers in several 32-bit instructions";
    finding.mend = isFloat ? "compute in float32; compensate a long sum where the tolerance asks "
                             "for it"
                           : "32-bit offsets where the tensor has fewer than 2^31 elements "
                             "(xesmith-narrow-offsets does it where it can prove that)";
    finding.numbers =
        llvm::json::Object{{"operations", place.operations}, {"elements", place.elements}};
    findings.add(place.first, std::move(finding));
  }
}

} // namespace
} // namespace mlir::xesmith
