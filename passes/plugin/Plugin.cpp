//===- Plugin.cpp - Entry point for mlir-opt and the Python bindings ------===//

#include "XeSmith/Passes.h"

#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Support/Compiler.h"

/// The entry that `mlir-opt --load-pass-plugin` calls.
extern "C" LLVM_ATTRIBUTE_VISIBILITY_DEFAULT ::mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "XeSmithPasses", XESMITH_LLVM_VERSION,
          [] { mlir::xesmith::registerXeSmithPasses(); }};
}

/// The version of MLIR that this was built against; its caller holds it against its own.
extern "C" LLVM_ATTRIBUTE_VISIBILITY_DEFAULT const char *xesmithLLVMVersion() {
  return XESMITH_LLVM_VERSION;
}

/// For processes whose caller cannot take a C++ structure by value. Call it once.
extern "C" LLVM_ATTRIBUTE_VISIBILITY_DEFAULT void xesmithRegisterPasses() {
  mlir::xesmith::registerXeSmithPasses();
}
