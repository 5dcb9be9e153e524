//===- BlockBounds.h - Blocks that provably lie inside their tensor -------===//

#ifndef XESMITH_BLOCKBOUNDS_H
#define XESMITH_BLOCKBOUNDS_H

#include "XeSmith/Numbers.h"
#include "mlir/IR/Operation.h"

namespace mlir::xesmith {

/// Dimensions that the boundary check of a load or store through a block pointer names; empty for
/// any other operation.
SmallVector<int32_t> boundaryChecks(Operation *op);

/// Whether a block pointer's block lies inside its tensor along a dimension, in every iteration:
/// by bounds of its offset, through tt.advance and loops whose trip count is proven.
bool liesInside(Value block, unsigned dimension, Numbers &numbers);

/// Those of `boundaryChecks` that can fail.
SmallVector<int32_t> neededChecks(Operation *op, Numbers &numbers);

} // namespace mlir::xesmith

#endif // XESMITH_BLOCKBOUNDS_H
