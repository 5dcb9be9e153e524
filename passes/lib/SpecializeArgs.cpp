//===- SpecializeArgs.cpp - Scalar arguments as constants -----------------===//

#include "XeSmith/Launch.h"
#include "XeSmith/Passes.h"
#include "XeSmith/Rewrite.h"
#include "XeSmith/TritonIR.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/Support/Error.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_SPECIALIZEARGS
#include "XeSmith/Passes.h.inc"

namespace {

class SpecializeArgs : public impl::SpecializeArgsBase<SpecializeArgs> {
public:
  using SpecializeArgsBase::SpecializeArgsBase;
  void runOnOperation() override;
};

/// The number as an attribute of the argument's type; null where it does not fit.
TypedAttr numberOf(const ArgumentValue &given) {
  Type type = given.argument.getType();
  StringRef text = given.text;
  if (auto integer = dyn_cast<IntegerType>(type)) {
    int64_t number;
    if (integer.getWidth() > 64 || text.getAsInteger(0, number))
      return {};
    bool fits = integer.getWidth() == 1 ? number == 0 || number == 1
                                        : llvm::isIntN(integer.getWidth(), number);
    return fits ? TypedAttr(IntegerAttr::get(type, APInt(integer.getWidth(), number,
                                                         /*isSigned=*/true,
                                                         /*implicitTrunc=*/true)))
                : TypedAttr();
  }
  if (auto real = dyn_cast<FloatType>(type)) {
    APFloat number(real.getFloatSemantics());
    auto status = number.convertFromString(text, APFloat::rmNearestTiesToEven);
    if (!status) {
      llvm::consumeError(status.takeError());
      return {};
    }
    return FloatAttr::get(type, number);
  }
  return {};
}

/// A shape operation of a constant: a constant of the new shape.
struct FoldShape : RewritePattern {
  FoldShape(StringRef name, MLIRContext *context) : RewritePattern(name, 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    Value inner = throughShape(op);
    auto constant = inner ? inner.getDefiningOp<arith::ConstantOp>() : arith::ConstantOp();
    if (!constant)
      return failure();
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!type || !type.hasStaticShape())
      return failure();
    Attribute element = constant.getValue();
    if (auto dense = dyn_cast<DenseElementsAttr>(element)) {
      if (!dense.isSplat())
        return failure();
      element = dense.getSplatValue<Attribute>();
    }
    auto typed = dyn_cast<TypedAttr>(element);
    if (!typed || typed.getType() != type.getElementType())
      return failure();
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, DenseElementsAttr::get(type, element));
    return success();
  }
};

void SpecializeArgs::runOnOperation() {
  ModuleOp module = getOperation();
  Operation *function = kernelOf(module);
  if (!function && !values.empty()) {
    emitError(module.getLoc(), "no kernel function here to give values to");
    return signalPassFailure();
  }
  if (!function)
    return;
  FailureOr<SmallVector<ArgumentValue>> given = argumentValues(function, Numbers(), values);
  if (failed(given))
    return signalPassFailure();
  for (ArgumentValue &one : *given) {
    Operation *kernel = one.argument.getOwner()->getParentOp();
    TypedAttr number = numberOf(one);
    if (!number) {
      emitError(kernel->getLoc()) << "argument '" << argumentName(one.argument) << "' of type "
                                  << one.argument.getType() << " cannot be " << one.text;
      return signalPassFailure();
    }
    if (one.argument.use_empty())
      continue;
    OpBuilder builder(one.argument.getOwner(), one.argument.getOwner()->begin());
    Value constant = arith::ConstantOp::create(builder, kernel->getLoc(), number);
    one.argument.replaceAllUsesWith(constant);
  }
  if (given->empty())
    return;

  MLIRContext *context = &getContext();
  RewritePatternSet patterns(context);
  for (StringRef name : {"tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape"})
    patterns.add<FoldShape>(name, context);
  scf::ForOp::getCanonicalizationPatterns(patterns, context);
  scf::IfOp::getCanonicalizationPatterns(patterns, context);
  if (failed(applyPatternsGreedily(module, std::move(patterns)))) {
    emitError(module.getLoc(), "folding the arguments did not come to an end");
    return signalPassFailure();
  }
  eraseDead(module);
  reportChanges(module, given->size(), "specialised argument");
}

} // namespace
} // namespace mlir::xesmith
