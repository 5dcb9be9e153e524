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

/// The kernel: the function of that name, as Triton may have extended it, or the only one. Without
/// a name the first that is public. Null where there is none.
Operation *kernelOf(ModuleOp module, StringRef name = "");

/// Reads `values=3=4096,K=512`: a kernel's arguments by number or name. An error at the kernel for
/// what names no argument, unless `lenient`.
FailureOr<SmallVector<ArgumentValue>> argumentValues(Operation *kernel, const Numbers &numbers,
                                                     ArrayRef<std::string> values,
                                                     bool lenient = false);

/// `Numbers` that take the given values and grid for granted.
FailureOr<Numbers> numbersOfLaunch(ModuleOp module, ArrayRef<std::string> values,
                                   ArrayRef<int64_t> grid);

/// The same of one kernel; `names` of its arguments count where there is one for each.
FailureOr<Numbers> numbersOfLaunch(Operation *kernel, ArrayRef<std::string> names,
                                   ArrayRef<std::string> values, ArrayRef<int64_t> grid,
                                   bool lenient);

} // namespace mlir::xesmith

#endif // XESMITH_LAUNCH_H
