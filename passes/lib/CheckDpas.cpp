//===- CheckDpas.cpp - Which dots the matrix engines can't take -----------===//

#include "XeSmith/Findings.h"
#include "XeSmith/Passes.h"
#include "XeSmith/TritonIR.h"

#include "llvm/ADT/StringSwitch.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_CHECKDPAS
#include "XeSmith/Passes.h.inc"

namespace {

struct DotObstacle {
  std::string why;
  std::string mend;
};

class CheckDpas : public impl::CheckDpasBase<CheckDpas> {
  void runOnOperation() override;
};

std::string inputPrecision(Operation *dot) {
  auto number = dot->getAttrOfType<IntegerAttr>("inputPrecision");
  if (!number)
    return "ieee";
  switch (number.getInt()) {
  case 0:
    return "tf32";
  case 1:
    return "tf32x3";
  case 2:
    return "ieee";
  case 3:
    return "bf16x3";
  case 4:
    return "bf16x6";
  default:
    return "unknown";
  }
}

/// Why DPAS can't make this dot, by its types and sizes alone.
std::optional<DotObstacle> dotObstacle(Operation *dot) {
  TypeView a = viewType(dot->getOperand(0).getType()), b = viewType(dot->getOperand(1).getType());
  TypeView acc = viewType(dot->getOperand(2).getType());
  bool float8 = StringRef(a.element).starts_with("f8");
  if (a.element != b.element && !(float8 && StringRef(b.element).starts_with("f8")))
    return DotObstacle{"its operands have different element types, " + a.element + " and " +
                           b.element,
                       "convert both to one 16-bit type"};
  if (a.element == "f64")
    return DotObstacle{"DPAS has no float64", "convert the operands to float32 or less"};
  if (a.element == "f32" && inputPrecision(dot) != "tf32")
    return DotObstacle{"float32 operands with input_precision '" + inputPrecision(dot) +
                           "': DPAS takes float32 only as tf32",
                       "input_precision='tf32' where the tolerance allows it"};
  if ((a.element == "f16" || a.element == "bf16") && acc.element != "f32" &&
      acc.element != a.element)
    return DotObstacle{"DPAS has no " + acc.element + " accumulator for " + a.element + " operands",
                       "accumulate in float32"};
  int64_t depth = llvm::StringSwitch<int64_t>(a.element)
                      .Case("f32", 8)
                      .Cases({"f16", "bf16"}, 16)
                      .Case("i8", 32)
                      .Default(float8 ? 32 : 0);
  if (!depth)
    return DotObstacle{"DPAS has no " + a.element + " operands", ""};
  if (a.shape.size() < 2 || b.shape.size() < 2)
    return std::nullopt;
  int64_t k = a.shape.back(), n = b.shape.back();
  if (k < depth)
    return DotObstacle{"its K is " + std::to_string(k) + "; one DPAS of " + a.element + " takes " +
                           std::to_string(depth),
                       "a larger tile along K"};
  if (n < 16)
    return DotObstacle{"its N is " + std::to_string(n) + "; one DPAS makes 16 columns",
                       "a larger tile along N, or swap the operands"};
  return std::nullopt;
}

void CheckDpas::runOnOperation() {
  ModuleOp module = getOperation();
  bool lowered = isIntelTTGIR(module);
  if (lowered && !hasDpas(module))
    return;
  SmallVector<Operation *> dots;
  module.walk([&](Operation *op) {
    if (op->getName().getStringRef() == "tt.dot" && op->getNumOperands() >= 3 &&
        op->getNumResults() == 1)
      dots.push_back(op);
  });
  Operation *bad = nullptr; // the first that does not qualify
  for (Operation *dot : dots)
    if (!bad && dotObstacle(dot))
      bad = dot;
  Findings findings(module);
  for (Operation *dot : dots) {
    std::optional<DotObstacle> found = dotObstacle(dot);
    bool onDpas = lowered && isDpas(viewType(dot->getResult(0).getType()).encoding);
    if (onDpas || (!lowered && !bad))
      continue;
    if (!found && bad) {
      FileLineColLoc at = kernelLocation(bad->getLoc());
      std::string line = at ? " in line " + std::to_string(at.getLine()) : "";
      found = DotObstacle{"every dot of a kernel must qualify, and the one" + line +
                              " does not: " + dotObstacle(bad)->why,
                          "mend that dot, or take it into a kernel of its own"};
    }
    if (!found)
      found = DotObstacle{"the compiler kept layout " +
                              shortEncoding(viewType(dot->getResult(0).getType()).encoding) +
                              "; the IR tells no reason",
                          ""};
    TypeView a = viewType(dot->getOperand(0).getType());
    TypeView result = viewType(dot->getResult(0).getType());
    Finding finding;
    finding.kind = "dot-not-dpas";
    finding.message = "the dot of " + a.shapeText() + "x" + a.element + " to " +
                      result.shapeText() + " is not computed by the matrix engines";
    finding.why = found->why;
    finding.mend = found->mend;
    if (a.shape.size() >= 2 && result.shape.size() >= 2)
      finding.numbers = llvm::json::Object{{"m", result.shape[result.shape.size() - 2]},
                                           {"n", result.shape.back()},
                                           {"k", a.shape.back()}};
    findings.add(dot, std::move(finding));
  }
}

} // namespace
} // namespace mlir::xesmith
