//===- Findings.h - Diagnostics for people and for programs ---------------===//

#ifndef XESMITH_FINDINGS_H
#define XESMITH_FINDINGS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"
#include <string>

namespace mlir::xesmith {

/// One thing that a check found.
struct Finding {
  llvm::StringRef kind; // "load-not-2d-block"
  bool isNote = false;  // a remark; else a warning
  std::string message;
  std::string why;
  std::string mend;
  llvm::json::Object numbers;
};

/// Tells findings twice: as a diagnostic at the operation's location, with the why and the mend as
/// notes, and as JSON text in the module's attribute `xesmith.findings`, an array of strings.
class Findings {
public:
  explicit Findings(ModuleOp module) : module(module) {}
  ~Findings();
  void add(Operation *op, Finding finding);

private:
  ModuleOp module;
  SmallVector<Attribute> said;
};

/// The attribute that holds the findings.
constexpr llvm::StringLiteral findingsAttribute = "xesmith.findings";
constexpr llvm::StringLiteral reportAttribute = "xesmith.report";
constexpr llvm::StringLiteral evidenceAttribute = "xesmith.evidence";

/// File, line and column of the kernel's own code: a call site counts as its caller.
FileLineColLoc kernelLocation(Location location);
/// {"file", "line", "column"}; absent where unknown.
void addLocation(llvm::json::Object &object, Location location);

} // namespace mlir::xesmith

#endif // XESMITH_FINDINGS_H
