//===- Ask.cpp - What is proven of a value, for tests and the curious -----===//

#include "XeSmith/Kernel.h"
#include "XeSmith/Launch.h"
#include "XeSmith/Passes.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_ASK
#include "XeSmith/Passes.h.inc"

namespace {

namespace json = llvm::json;

class Ask : public impl::AskBase<Ask> {
public:
  using AskBase::AskBase;
  void runOnOperation() override;
};

json::Object answer(Value value, Numbers &numbers) {
  json::Object made;
  if (std::optional<Bounds> known = numbers.known(value)) {
    json::Array low, high;
    for (size_t program = 0; program < known->size(); ++program) {
      low.push_back(known->at(program).low);
      high.push_back(known->at(program).high);
    }
    made["low"] = std::move(low);
    made["high"] = std::move(high);
  }
  if (std::string text = numbers.text(value); !text.empty())
    made["text"] = text;
  json::Array slopes;
  for (unsigned dimension = 0; dimension < viewType(value.getType()).shape.size(); ++dimension) {
    Slope slope = numbers.slope(value, dimension);
    json::Object one;
    if (slope.kind == Slope::Constant)
      one["step"] = slope.constant;
    else if (slope.kind == Slope::Symbolic)
      one["step"] = slope.symbol;
    else if (slope.kind == Slope::Unnamed)
      one["step"] = nullptr;
    if (!slope.modulo.empty())
      one["modulo"] = slope.modulo;
    slopes.push_back(std::move(one));
  }
  if (!slopes.empty())
    made["slopes"] = std::move(slopes);
  if (BlockArgument argument = baseArgument(value); argument && viewType(value.getType()).ofPointers)
    made["argument"] = numbers.nameOf(argument);
  return made;
}

void Ask::runOnOperation() {
  ModuleOp module = getOperation();
  FailureOr<Numbers> numbers = numbersOfLaunch(module, values, grid);
  if (failed(numbers))
    return signalPassFailure();
  module.walk([&](Operation *op) {
    if (op->getName().getStringRef() != "xesmith.ask" || op->getNumOperands() != 1)
      return;
    std::string text;
    llvm::raw_string_ostream(text) << json::Value(answer(op->getOperand(0), *numbers));
    op->emitRemark() << text;
  });
}

} // namespace
} // namespace mlir::xesmith
