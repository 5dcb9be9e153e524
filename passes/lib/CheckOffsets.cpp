//===- CheckOffsets.cpp - Offsets that wrap around ------------------------===//

#include "XeSmith/Findings.h"
#include "XeSmith/Kernel.h"
#include "XeSmith/Launch.h"
#include "XeSmith/Passes.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_CHECKOFFSETS
#include "XeSmith/Passes.h.inc"

namespace {

class CheckOffsets : public impl::CheckOffsetsBase<CheckOffsets> {
public:
  using CheckOffsetsBase::CheckOffsetsBase;
  void runOnOperation() override;
};

/// The smallest that a sum or product of 32 bits is in the program where that is largest, where
/// it wraps there for certain.
std::optional<int64_t> wrapsFrom(Operation *op, Numbers &numbers) {
  constexpr int64_t largest = std::numeric_limits<int32_t>::max();
  bool product = isa<arith::MulIOp>(op);
  if (!product && !isa<arith::AddIOp>(op))
    return std::nullopt;
  if (!getElementTypeOrSelf(op->getResult(0).getType()).isSignlessInteger(32))
    return std::nullopt;
  std::optional<Bounds> a = numbers.ranges(op->getOperand(0));
  std::optional<Bounds> b = numbers.ranges(op->getOperand(1));
  if (!a || !b || a->hull().low < 0 || b->hull().low < 0)
    return std::nullopt;
  int64_t most = 0;
  for (size_t program = 0; program < std::max(a->size(), b->size()); ++program) {
    int64_t x = a->at(program).low, y = b->at(program).low; // of 32 bits: nothing overflows here
    most = std::max(most, product ? x * y : x + y);
  }
  return most > largest ? std::optional(most) : std::nullopt;
}

void CheckOffsets::runOnOperation() {
  ModuleOp module = getOperation();
  Operation *function = kernelOf(module);
  FailureOr<Numbers> numbers = numbersOfLaunch(module, values, grid);
  if (failed(numbers))
    return signalPassFailure();
  if (!function)
    return;
  // Where the programs are too many to be looked at one by one, the last has the largest numbers.
  if (numbers->programs().value_or(0) > Numbers::mostPrograms)
    numbers->lookAtLastProgram();
  Kernel kernel(function, *numbers);
  Findings findings(module);
  for (Operation *op : kernel.operations) {
    std::optional<int64_t> least;
    if (!kernel.feedsAddress(op) || !kernel.reached(op) || !(least = wrapsFrom(op, *numbers)))
      continue;
    Finding finding;
    finding.kind = "offset-wraps";
    finding.message = std::string("this 32-bit ") + (isa<arith::MulIOp>(op) ? "product" : "sum") +
                      " is " + std::to_string(*least) + " or more in a program of the grid";
    finding.why = "32 bits reach 2^31 - 1; beyond it the offset wraps around, and the access goes "
                  "elsewhere";
    finding.mend = "compute it in 64 bits: tl.program_id(0).to(tl.int64)";
    finding.numbers = llvm::json::Object{{"least", *least}};
    findings.add(op, std::move(finding));
  }
}

} // namespace
} // namespace mlir::xesmith
