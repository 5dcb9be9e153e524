//===- Passes.h - Passes that check, report and transform Triton IR -------===//

#ifndef XESMITH_PASSES_H
#define XESMITH_PASSES_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Pass/Pass.h"

namespace mlir::xesmith {

#define GEN_PASS_DECL
#include "XeSmith/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "XeSmith/Passes.h.inc"

} // namespace mlir::xesmith

#endif // XESMITH_PASSES_H
