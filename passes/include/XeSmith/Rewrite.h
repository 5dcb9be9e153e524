//===- Rewrite.h - What the transforms share ------------------------------===//

#ifndef XESMITH_REWRITE_H
#define XESMITH_REWRITE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Operation.h"

namespace mlir::xesmith {

/// Erases what has no use and no effect, Triton's own operations included: stock MLIR keeps those,
/// since it does not know their effects.
void eraseDead(Operation *root);

/// What the transforms tell: one remark for each function that changed.
void reportChanges(Operation *op, int64_t count, llvm::StringRef what);

} // namespace mlir::xesmith

#endif // XESMITH_REWRITE_H
