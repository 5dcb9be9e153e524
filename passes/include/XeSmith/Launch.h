//===- Launch.h - What a launch gives, as pass options --------------------===//

#ifndef XESMITH_LAUNCH_H
#define XESMITH_LAUNCH_H

#include "XeSmith/Numbers.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::xesmith {

struct ArgumentValue {
  BlockArgument argument;
  std::string text; // the number as it was written
};

/// Reads `values=3=4096,K=512`: a function's arguments by number or name. An error at the module
/// for what names no argument.
FailureOr<SmallVector<ArgumentValue>> argumentValues(ModuleOp module, ArrayRef<std::string> values);

/// `Numbers` that take the given values and grid for granted.
FailureOr<Numbers> numbersOfLaunch(ModuleOp module, ArrayRef<std::string> values,
                                   ArrayRef<int64_t> grid);

} // namespace mlir::xesmith

#endif // XESMITH_LAUNCH_H
