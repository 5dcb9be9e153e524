//===- Footprint.h - What values take of registers and local memory -------===//

#ifndef XESMITH_FOOTPRINT_H
#define XESMITH_FOOTPRINT_H

#include "XeSmith/Encodings.h"
#include "XeSmith/TritonIR.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::xesmith {

/// How a layout deals a tensor out, along one dimension.
struct Share {
  int64_t lane = 1; // elements that a lane holds of each tile
  int64_t tile = 1; // elements that the whole work-group holds at a time
};

/// The shares along each dimension; empty for a layout that is not known here. Known are blocked,
/// DPAS, the operands of DPAS, and slices of these.
SmallVector<Share> sharesOf(const Encoding &encoding, int64_t lanes);

/// Elements of a tensor that each lane holds, copies included; of an unknown layout an even share.
int64_t elementsPerLane(const TypeView &tensor, int64_t warps, int64_t lanes);

/// Bytes of shared local memory that an operation needs while it runs: a layout conversion or a
/// reduction across sub-groups. 0 for any other.
int64_t scratchBytes(Operation *op);

/// A tile in words: "128x32xf16".
std::string tileText(const TypeView &tile);

/// Where the values of a function live, by places in its text.
class Lifetimes {
public:
  explicit Lifetimes(Operation *function);

  /// Operations in the order of their text; their index is their place.
  ArrayRef<Operation *> operations() const { return order; }
  /// The first and the last place of a value. A value from before a loop that is used inside lives
  /// until the loop's end.
  std::pair<int64_t, int64_t> placesOf(Value value) const;

private:
  SmallVector<Operation *> order;
  llvm::DenseMap<Operation *, std::pair<int64_t, int64_t>> places; // of an operation and its body
};

} // namespace mlir::xesmith

#endif // XESMITH_FOOTPRINT_H
