//===- NarrowOffsets.cpp - 64-bit offsets that fit 32 bits ----------------===//

#include "XeSmith/Launch.h"
#include "XeSmith/Passes.h"
#include "XeSmith/Rewrite.h"
#include "XeSmith/TritonIR.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_NARROWOFFSETS
#include "XeSmith/Passes.h.inc"

namespace {

class NarrowOffsets : public impl::NarrowOffsetsBase<NarrowOffsets> {
public:
  using NarrowOffsetsBase::NarrowOffsetsBase;
  void runOnOperation() override;

private:
  bool narrows(Value value, Numbers &numbers, unsigned depth = 0);
  bool computeNarrows(Value value, Numbers &numbers, unsigned depth);
  Value narrow(Value value);

  llvm::DenseMap<Value, Value> made;
  llvm::DenseMap<Value, bool> answers; // a value may be reached over many ways
};

unsigned bitsOf(Value value) {
  Type type = getElementTypeOrSelf(value.getType());
  return type.isSignlessInteger() ? type.getIntOrFloatBitWidth() : 0;
}

Type narrowType(Type type) {
  Type element = IntegerType::get(type.getContext(), 32);
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    return RankedTensorType::get(tensor.getShape(), element, tensor.getEncoding());
  return element;
}

/// Whether a 64-bit value can be computed in 32 bits with the same result: it and everything on
/// the way to it fits, down to values that are 32 bits wide.
bool NarrowOffsets::narrows(Value value, Numbers &numbers, unsigned depth) {
  if (auto known = answers.find(value); known != answers.end())
    return known->second;
  bool answer = computeNarrows(value, numbers, depth);
  return answers[value] = answer;
}

bool NarrowOffsets::computeNarrows(Value value, Numbers &numbers, unsigned depth) {
  if (bitsOf(value) != 64 || depth >= maxDepth)
    return false;
  std::optional<Interval> range = numbers.range(value);
  if (!range || range->low < std::numeric_limits<int32_t>::min() ||
      range->high > std::numeric_limits<int32_t>::max())
    return false;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return numbers.constant(value).has_value();
  if (isa<arith::ExtSIOp>(op))
    return bitsOf(op->getOperand(0)) <= 32;
  if (isa<arith::ExtUIOp>(op))
    return bitsOf(op->getOperand(0)) <= 32; // in range, so not negative as 32 bits
  if (isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op))
    return narrows(op->getOperand(0), numbers, depth + 1) &&
           narrows(op->getOperand(1), numbers, depth + 1);
  if (Value inner = throughShape(op))
    return narrows(inner, numbers, depth + 1);
  return false;
}

Value NarrowOffsets::narrow(Value value) {
  if (Value known = made.lookup(value))
    return known;
  Operation *op = value.getDefiningOp();
  OpBuilder builder(op);
  Type type = narrowType(value.getType());
  Value result;
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    TypedAttr number;
    if (auto dense = dyn_cast<DenseIntElementsAttr>(constant.getValue()))
      number =
          DenseElementsAttr::get(cast<ShapedType>(type), dense.getSplatValue<APInt>().trunc(32));
    else
      number = IntegerAttr::get(type, cast<IntegerAttr>(constant.getValue()).getValue().trunc(32));
    result = arith::ConstantOp::create(builder, op->getLoc(), number);
  } else if (isa<arith::ExtSIOp, arith::ExtUIOp>(op)) {
    Value inner = op->getOperand(0);
    if (bitsOf(inner) == 32)
      result = inner;
    else if (isa<arith::ExtSIOp>(op))
      result = arith::ExtSIOp::create(builder, op->getLoc(), type, inner);
    else
      result = arith::ExtUIOp::create(builder, op->getLoc(), type, inner);
  } else if (isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op)) {
    Value a = narrow(op->getOperand(0)), b = narrow(op->getOperand(1));
    if (isa<arith::AddIOp>(op))
      result = arith::AddIOp::create(builder, op->getLoc(), a, b);
    else if (isa<arith::SubIOp>(op))
      result = arith::SubIOp::create(builder, op->getLoc(), a, b);
    else
      result = arith::MulIOp::create(builder, op->getLoc(), a, b);
  } else { // of a shape operation the same one, over the narrow value
    IRMapping mapping;
    mapping.map(op->getOperand(0), narrow(op->getOperand(0)));
    Operation *copy = builder.clone(*op, mapping);
    copy->getResult(0).setType(type);
    result = copy->getResult(0);
  }
  return made[value] = result;
}

void NarrowOffsets::runOnOperation() {
  ModuleOp module = getOperation();
  FailureOr<Numbers> numbers = numbersOfLaunch(module, values, grid);
  if (failed(numbers))
    return signalPassFailure();
  made.clear();
  answers.clear();
  SmallVector<Operation *> offsets, comparisons;
  module.walk([&](Operation *op) {
    if (op->getName().getStringRef() == "tt.addptr" && op->getNumOperands() == 2 &&
        narrows(op->getOperand(1), *numbers))
      offsets.push_back(op);
    // Unsigned, a negative number would compare otherwise.
    auto compare = dyn_cast<arith::CmpIOp>(op);
    if (compare && compare.getPredicate() < arith::CmpIPredicate::ult &&
        narrows(compare.getLhs(), *numbers) && narrows(compare.getRhs(), *numbers))
      comparisons.push_back(op);
  });
  for (Operation *op : offsets)
    op->setOperand(1, narrow(op->getOperand(1)));
  for (Operation *op : comparisons)
    for (unsigned i : {0u, 1u})
      op->setOperand(i, narrow(op->getOperand(i)));
  if (!offsets.empty() || !comparisons.empty())
    eraseDead(module);
  reportChanges(module, offsets.size(), "narrowed offset");
  reportChanges(module, comparisons.size(), "narrowed comparison");
}

} // namespace
} // namespace mlir::xesmith
