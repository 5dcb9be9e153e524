//===- BlockBounds.h - Where block pointers point, and how they move ------===//

#ifndef XESMITH_BLOCKBOUNDS_H
#define XESMITH_BLOCKBOUNDS_H

#include "XeSmith/Numbers.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
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

/// Whether a value of a loop's body is made of the counter and of what the loop never changes by
/// additions, subtractions and products with the latter: it grows by the same in every iteration.
bool growsEvenly(scf::ForOp loop, Value value);

/// The offsets that a tt.make_tensor_ptr or tt.advance takes, its last operands; empty for any
/// other operation, and for one whose operands do not fit its rank.
ValueRange blockOffsets(Operation *op);

/// Whether an operation of a loop's body makes or advances a block pointer of which nothing but
/// offsets changes, and these evenly.
bool movesEvenly(scf::ForOp loop, Operation *op);

} // namespace mlir::xesmith

#endif // XESMITH_BLOCKBOUNDS_H
