//===- DemoteFloat64.cpp - float64 arithmetic in float32 ------------------===//

#include "XeSmith/Passes.h"
#include "XeSmith/Rewrite.h"
#include "XeSmith/TritonIR.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/StringSwitch.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_DEMOTEFLOAT64
#include "XeSmith/Passes.h.inc"

namespace {

/// A float64 or a tensor of them.
bool isFloat64(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return (tensor ? tensor.getElementType() : type).isF64();
}
bool isFloat64(Value value) { return isFloat64(value.getType()); }

/// The float64 values of a module, joined where one operation needs them to be of one type.
class Chains {
public:
  explicit Chains(ModuleOp module) {
    module.walk([&](Operation *op) {
      for (Value result : op->getResults())
        number(result);
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (BlockArgument argument : block.getArguments())
            number(argument);
    });
    classes.grow(values.size());
    module.walk([&](Operation *op) { visit(op); });
    classes.compress();
    for (unsigned value : pinnedValues)
      pinned.insert(classes[value]);
  }

  /// All float64 values that may become float32.
  SmallVector<Value> free() const {
    SmallVector<Value> found;
    for (auto [index, value] : llvm::enumerate(values))
      if (!pinned.contains(classes[index]))
        found.push_back(value);
    return found;
  }

private:
  void number(Value value) {
    if (isFloat64(value) && numbers.try_emplace(value, values.size()).second)
      values.push_back(value);
  }

  void pin(ValueRange range) {
    for (Value value : range)
      if (isFloat64(value))
        pinnedValues.push_back(numbers.lookup(value));
  }

  void join(ArrayRef<Value> together) {
    std::optional<unsigned> first;
    for (Value value : together)
      if (value && isFloat64(value)) {
        unsigned index = numbers.lookup(value);
        if (first)
          classes.join(*first, index);
        else
          first = index;
      }
  }

  void pinAll(Operation *op) {
    pin(op->getOperands());
    pin(op->getResults());
    for (Region &region : op->getRegions())
      for (Block &block : region)
        pin(block.getArguments());
  }

  void visit(Operation *op);

  llvm::DenseMap<Value, unsigned> numbers;
  SmallVector<Value> values;
  llvm::IntEqClasses classes;
  SmallVector<unsigned> pinnedValues;
  llvm::DenseSet<unsigned> pinned;
};

/// float32 of the same layout.
Type narrowed(Type type) {
  Type element = Float32Type::get(type.getContext());
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    return RankedTensorType::get(tensor.getShape(), element, tensor.getEncoding());
  return element;
}

/// A number in float32; nothing where a finite one would become infinite, subnormal or zero.
std::optional<APFloat> narrowed(const APFloat &wide) {
  APFloat narrow = wide;
  bool lost;
  narrow.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lost);
  bool keeps = !wide.isFiniteNonZero() || narrow.isNormal();
  return keeps ? std::optional<APFloat>(narrow) : std::nullopt;
}

/// The value of a float64 constant in float32; null where it does not fit.
TypedAttr narrowed(arith::ConstantOp constant) {
  Type type = narrowed(constant.getType());
  if (auto number = dyn_cast<FloatAttr>(constant.getValue())) {
    std::optional<APFloat> narrow = narrowed(number.getValue());
    return narrow ? FloatAttr::get(type, *narrow) : FloatAttr();
  }
  auto dense = dyn_cast<DenseFPElementsAttr>(constant.getValue());
  if (!dense)
    return {};
  SmallVector<APFloat> numbers;
  auto all = dense.getValues<APFloat>();
  for (const APFloat &wide :
       llvm::make_range(all.begin(), dense.isSplat() ? all.begin() + 1 : all.end())) {
    std::optional<APFloat> narrow = narrowed(wide);
    if (!narrow)
      return {};
    numbers.push_back(*narrow);
  }
  return DenseFPElementsAttr::get(cast<ShapedType>(type), numbers);
}

/// Arithmetic that means the same in float32, element by element.
bool isElementwise(Operation *op) {
  if (op->getNumRegions() || op->getNumSuccessors())
    return false;
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp, arith::RemFOp,
             arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
             arith::MinNumFOp, arith::CmpFOp, arith::SelectOp>(op) ||
         isa_and_nonnull<math::MathDialect>(op->getDialect()) ||
         llvm::StringSwitch<bool>(op->getName().getStringRef())
             .Cases({"tt.precise_sqrt", "tt.precise_divf", "tt.clampf"}, true)
             .Default(false);
}

/// tt.reduce and tt.scan as they should be: a body of two arguments for each operand, which gives
/// back one value for each.
bool isCombine(Operation *op) {
  StringRef name = op->getName().getStringRef();
  unsigned count = op->getNumOperands();
  if ((name != "tt.reduce" && name != "tt.scan") || op->getNumRegions() != 1 ||
      !op->getRegion(0).hasOneBlock() || op->getNumResults() != count)
    return false;
  Block &body = op->getRegion(0).front();
  return body.getNumArguments() == 2 * count && !body.empty() &&
         body.back().getNumOperands() == count;
}

void Chains::visit(Operation *op) {
  StringRef name = op->getName().getStringRef();
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (isFloat64(constant.getType()) && !narrowed(constant))
      pin(op->getResults());
  } else if (isElementwise(op) || throughShape(op)) {
    SmallVector<Value> all(op->getOperands());
    llvm::append_range(all, op->getResults());
    join(all);
  } else if (isa<arith::ExtFOp, arith::TruncFOp, arith::SIToFPOp, arith::UIToFPOp>(op)) {
    // The narrow side stays as it is.
  } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
    for (auto [init, argument, result, yielded] :
         llvm::zip(loop.getInitArgs(), loop.getRegionIterArgs(), loop.getResults(),
                   loop.getYieldedValues()))
      join({init, argument, result, yielded});
  } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
    for (Region &region : branch->getRegions())
      if (!region.empty())
        for (auto [result, yielded] :
             llvm::zip(branch.getResults(), region.front().getTerminator()->getOperands()))
          join({result, yielded});
  } else if (isa<scf::YieldOp>(op) && isa<scf::ForOp, scf::IfOp>(op->getParentOp())) {
    // Joined by the operation around it.
  } else if (isCombine(op)) {
    Block &body = op->getRegion(0).front();
    for (unsigned i = 0, count = op->getNumOperands(); i < count; ++i)
      join({op->getOperand(i), op->getResult(i), body.getArgument(i), body.getArgument(count + i),
            body.back().getOperand(i)});
  } else if ((name == "tt.reduce.return" || name == "tt.scan.return") && op->getParentOp() &&
             isCombine(op->getParentOp())) {
    // Joined by the operation around it.
  } else
    pinAll(op); // memory, arguments, calls, assembly, integers of floats: what has its type
}

class DemoteFloat64 : public impl::DemoteFloat64Base<DemoteFloat64> {
  void runOnOperation() override;
};

void DemoteFloat64::runOnOperation() {
  ModuleOp module = getOperation();
  SmallVector<Value> wide = Chains(module).free();
  llvm::SmallPtrSet<Operation *, 32> computed;
  for (Value value : wide)
    for (Operation *user : value.getUsers())
      if (isElementwise(user))
        computed.insert(user);
  if (computed.empty())
    return;
  for (Value value : wide) {
    // The value first: a constant must agree with its type.
    if (auto constant = value.getDefiningOp<arith::ConstantOp>())
      constant.setValueAttr(narrowed(constant));
    value.setType(narrowed(value.getType()));
  }
  // What converted between float32 and float64 converts nothing now.
  for (Value value : wide) {
    auto ends = llvm::to_vector(value.getUsers());
    if (Operation *start = value.getDefiningOp())
      ends.push_back(start);
    for (Operation *cast : ends)
      if (isa<arith::ExtFOp, arith::TruncFOp>(cast) &&
          cast->getOperand(0).getType() == cast->getResult(0).getType())
        cast->getResult(0).replaceAllUsesWith(cast->getOperand(0));
  }
  eraseDead(module);
  reportChanges(module, computed.size(), "demoted operation");
}

} // namespace
} // namespace mlir::xesmith
