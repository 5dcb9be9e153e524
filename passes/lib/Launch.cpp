//===- Launch.cpp - What a launch gives, as pass options ------------------===//

#include "XeSmith/Launch.h"
#include "XeSmith/TritonIR.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace mlir::xesmith;

Operation *xesmith::kernelOf(ModuleOp module, StringRef name) {
  SmallVector<Operation *> functions;
  for (Operation &op : *module.getBody())
    if (op.getName().getStringRef() == "tt.func" && op.getNumRegions() == 1 &&
        !op.getRegion(0).empty())
      functions.push_back(&op);
  for (Operation *function : functions) {
    auto symbol = function->getAttrOfType<StringAttr>("sym_name");
    auto visibility = function->getAttrOfType<StringAttr>("sym_visibility");
    StringRef rest = symbol ? symbol.getValue() : "";
    bool found = name.empty() ? !visibility || visibility.getValue() == "public"
                              : functions.size() == 1 || (rest.consume_front(name) &&
                                                          (rest.empty() || rest.starts_with("__")));
    if (found)
      return function;
  }
  return nullptr;
}

FailureOr<SmallVector<ArgumentValue>> xesmith::argumentValues(Operation *kernel,
                                                              const Numbers &numbers,
                                                              ArrayRef<std::string> values,
                                                              bool lenient) {
  SmallVector<ArgumentValue> read;
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
        if (numbers.nameOf(candidate) == name)
          argument = candidate;
    if (!argument && lenient)
      continue;
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
  Operation *kernel = kernelOf(module);
  if (kernel)
    return numbersOfLaunch(kernel, {}, values, grid, /*lenient=*/false);
  if (!values.empty())
    return emitError(module.getLoc(), "no kernel function here to give values to");
  return Numbers(grid);
}

FailureOr<Numbers> xesmith::numbersOfLaunch(Operation *kernel, ArrayRef<std::string> names,
                                            ArrayRef<std::string> values, ArrayRef<int64_t> grid,
                                            bool lenient) {
  for (int64_t programs : grid)
    if (programs < 1 || programs > std::numeric_limits<int32_t>::max())
      return emitError(kernel->getLoc(), "a grid holds 1 to 2^31-1 programs along each axis");
  Numbers numbers(grid);
  if (names.size() == kernel->getRegion(0).front().getNumArguments())
    numbers.call(names);
  FailureOr<SmallVector<ArgumentValue>> given = argumentValues(kernel, numbers, values, lenient);
  if (failed(given))
    return failure();
  for (const ArgumentValue &one : *given) {
    int64_t number;
    if (!one.argument.getType().isSignlessIntOrIndex() ||
        StringRef(one.text).getAsInteger(10, number))
      continue; // a float: nothing here computes with it
    numbers.assume(one.argument, number);
  }
  return numbers;
}
