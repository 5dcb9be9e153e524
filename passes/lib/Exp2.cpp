//===- Exp2.cpp - exp as exp2, with the scale folded ----------------------===//

#include "XeSmith/Passes.h"
#include "XeSmith/Rewrite.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_EXP2
#include "XeSmith/Passes.h.inc"

namespace {

class Exp2 : public impl::Exp2Base<Exp2> {
  void runOnOperation() override;
};

/// The one float of a constant.
std::optional<double> floatOf(Value value) {
  auto constant = value.getDefiningOp<arith::ConstantOp>();
  if (!constant)
    return std::nullopt;
  if (auto dense = dyn_cast<DenseFPElementsAttr>(constant.getValue());
      dense && dense.isSplat() && dense.getElementType().isF32())
    return dense.getSplatValue<APFloat>().convertToFloat();
  if (auto number = dyn_cast<FloatAttr>(constant.getValue()); number && number.getType().isF32())
    return number.getValue().convertToFloat();
  return std::nullopt;
}

Value constantLike(OpBuilder &builder, Location location, Type type, double number) {
  auto element = builder.getF32FloatAttr(static_cast<float>(number));
  TypedAttr attribute = element;
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    attribute = DenseElementsAttr::get(tensor, Attribute(element));
  return arith::ConstantOp::create(builder, location, attribute);
}

void Exp2::runOnOperation() {
  SmallVector<math::ExpOp> found;
  getOperation().walk([&](math::ExpOp op) {
    // Of other widths the compiler computes in float32 anyway, and converts.
    if (getElementTypeOrSelf(op.getType()).isF32())
      found.push_back(op);
  });
  for (math::ExpOp op : found) {
    OpBuilder builder(op);
    Value argument = op.getOperand();
    double scale = llvm::numbers::log2e;
    // exp(x * c) = exp2(x * (c * log2(e))): the constant is made once, here.
    if (auto product = argument.getDefiningOp<arith::MulFOp>()) {
      std::optional<double> right = floatOf(product.getRhs()), left = floatOf(product.getLhs());
      if (right || left) {
        scale *= right ? *right : *left;
        argument = right ? product.getLhs() : product.getRhs();
      }
    }
    Value factor = constantLike(builder, op.getLoc(), op.getType(), scale);
    Value scaled = arith::MulFOp::create(builder, op.getLoc(), argument, factor);
    op.replaceAllUsesWith(math::Exp2Op::create(builder, op.getLoc(), scaled).getResult());
    op.erase();
  }
  if (!found.empty())
    eraseDead(getOperation());
  reportChanges(getOperation(), found.size(), "rewritten exponential");
}

} // namespace
} // namespace mlir::xesmith
