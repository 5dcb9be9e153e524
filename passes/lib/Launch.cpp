//===- Launch.cpp - What a launch gives, as pass options ------------------===//

#include "XeSmith/Launch.h"
#include "XeSmith/TritonIR.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace mlir::xesmith;

/// The kernel: the only public function, or the only one.
static Operation *kernelOf(ModuleOp module) {
  Operation *found = nullptr;
  for (Operation &op : *module.getBody()) {
    if (op.getName().getStringRef() != "tt.func" || op.getNumRegions() != 1 ||
        op.getRegion(0).empty())
      continue;
    auto visibility = op.getAttrOfType<StringAttr>("sym_visibility");
    if (!visibility || visibility.getValue() == "public")
      found = found ? found : &op;
  }
  return found;
}

FailureOr<SmallVector<ArgumentValue>> xesmith::argumentValues(ModuleOp module,
                                                              ArrayRef<std::string> values) {
  SmallVector<ArgumentValue> read;
  if (values.empty())
    return read;
  Operation *kernel = kernelOf(module);
  if (!kernel)
    return emitError(module.getLoc(), "no kernel function here to give values to");
  Block &entry = kernel->getRegion(0).front();
  for (StringRef text : values) {
    auto [name, number] = text.split('=');
    name = name.trim();
    unsigned index;
    BlockArgument argument;
    if (!name.getAsInteger(10, index)) {
      if (index < entry.getNumArguments())
        argument = entry.getArgument(index);
    } else
      for (BlockArgument candidate : entry.getArguments())
        if (argumentName(candidate) == name)
          argument = candidate;
    if (!argument)
      return emitError(kernel->getLoc())
             << "'" << text << "' names no argument of the kernel; it has "
             << entry.getNumArguments() << ", by number from 0 or by the name of their location";
    if (number.trim().empty())
      return emitError(kernel->getLoc()) << "'" << text << "' gives no value: write name=value";
    read.push_back({argument, number.trim().str()});
  }
  return read;
}

FailureOr<Numbers> xesmith::numbersOfLaunch(ModuleOp module, ArrayRef<std::string> values,
                                            ArrayRef<int64_t> grid) {
  FailureOr<SmallVector<ArgumentValue>> given = argumentValues(module, values);
  if (failed(given))
    return failure();
  for (int64_t programs : grid)
    if (programs < 1 || programs > std::numeric_limits<int32_t>::max())
      return emitError(module.getLoc(), "a grid holds 1 to 2^31-1 programs along each axis");
  Numbers numbers(grid);
  for (const ArgumentValue &one : *given) {
    int64_t number;
    if (!one.argument.getType().isSignlessIntOrIndex() ||
        StringRef(one.text).getAsInteger(10, number))
      continue; // a float: nothing here computes with it
    numbers.assume(one.argument, number);
  }
  return numbers;
}
