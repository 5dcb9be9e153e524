//===- TritonPlugin.cpp - Entry point for Triton's own process ------------===//
//
// The passes in the process that compiles, on Triton's registered operations:
//
//   passes.plugin.extend_with("XeSmithTritonPasses.so")
//   passes.plugin.add_xesmith_exp2(pm, [])
//
//===----------------------------------------------------------------------===//

#include "XeSmith/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "triton/Tools/PluginUtils.h"
#include "llvm/ADT/StringExtras.h"
#include <iterator>
#include <mutex>
#include <string_view>

using namespace mlir;

static_assert(TRITON_PLUGIN_API_VERSION == 2, "another plugin interface than this was written for");
static_assert(std::string_view(TRITON_VERSION) == XESMITH_TRITON_VERSION,
              "headers of another Triton than the one that was asked for");

namespace {

/// Takes the place of a pass whose options are malformed. An error inside MLIR would end the user's
/// process; a pass that fails becomes an exception of Python's.
class Refusal : public PassWrapper<Refusal, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Refusal)
  explicit Refusal(std::string reason) : reason(std::move(reason)) {}
  StringRef getName() const override { return "xesmith-refusal"; }
  void runOnOperation() override {
    emitError(getOperation().getLoc(), reason);
    signalPassFailure();
  }

private:
  std::string reason;
};

/// `options` as in a pass pipeline, `values=0=64` and `grid=32,1` each a string of its own.
void addPass(PassManager &manager, StringRef name, const std::vector<std::string> &options) {
  std::string reason;
  const mlir::PassInfo *pass = mlir::PassInfo::lookup(name);
  auto refuse = [&](const Twine &what) {
    reason = (name + ": " + what).str();
    return failure();
  };
  if (pass && succeeded(pass->addToPipeline(manager, llvm::join(options, " "), refuse)))
    return;
  if (reason.empty())
    reason = (name + ": malformed options '" + llvm::join(options, " ") + "'").str();
  manager.addPass(std::make_unique<Refusal>(std::move(reason)));
}

// XESMITH_PASS(argument of the pass, its name in Python)
triton::plugin::PassInfo passes[] = {
#define XESMITH_PASS(argument, name)                                                               \
  {name, XESMITH_VERSION,                                                                          \
   [](PassManager *manager, const std::vector<std::string> &options) {                             \
     addPass(*manager, argument, options);                                                         \
   },                                                                                              \
   [] {}},
#include "XeSmith/PassNames.inc"
};

} // namespace

/// Triton compares `tritonVersion` with its own release and refuses another one.
TRITON_PLUGIN_API triton::plugin::PluginInfo *tritonGetPluginInfo() {
  static std::once_flag once;
  std::call_once(once, xesmith::registerXeSmithPasses);
  static triton::plugin::PluginInfo info = {TRITON_PLUGIN_API_VERSION,
                                            "XeSmithPasses",
                                            XESMITH_VERSION,
                                            passes,
                                            std::size(passes),
                                            /*dialects=*/nullptr,
                                            0,
                                            /*ops=*/nullptr,
                                            0,
                                            TRITON_VERSION};
  return &info;
}
