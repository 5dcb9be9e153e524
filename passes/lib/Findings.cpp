//===- Findings.cpp - Diagnostics for people and for programs -------------===//

#include "XeSmith/Findings.h"
#include "XeSmith/TritonIR.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::xesmith;

FileLineColLoc xesmith::kernelLocation(Location location) {
  LocationAttr current = location;
  for (unsigned depth = 0; depth < maxDepth; ++depth) {
    if (auto call = dyn_cast<CallSiteLoc>(current))
      current = call.getCaller();
    else if (auto name = dyn_cast<NameLoc>(current))
      current = name.getChildLoc();
    else if (auto fused = dyn_cast<FusedLoc>(current)) {
      if (fused.getLocations().empty())
        return {};
      current = fused.getLocations().front();
    } else
      return dyn_cast<FileLineColLoc>(current);
  }
  return {};
}

void xesmith::addLocation(llvm::json::Object &object, Location location) {
  FileLineColLoc at = kernelLocation(location);
  if (!at)
    return;
  StringRef file = at.getFilename().getValue(); // JSON is UTF-8; a file name need not be
  object["file"] = llvm::json::isUTF8(file) ? file.str() : llvm::json::fixUTF8(file);
  if (at.getLine())
    object["line"] = static_cast<int64_t>(at.getLine());
  object["column"] = static_cast<int64_t>(at.getColumn());
}

/// JSON text must be UTF-8; a file name need not be.
static std::string asText(StringRef text) {
  return llvm::json::isUTF8(text) ? text.str() : llvm::json::fixUTF8(text);
}

void Findings::add(Operation *op, Finding finding) {
  InFlightDiagnostic diagnostic =
      finding.isNote ? emitRemark(op->getLoc()) : emitWarning(op->getLoc());
  diagnostic << "[" << finding.kind << "] " << finding.message;
  if (!finding.why.empty())
    diagnostic.attachNote() << "why: " << finding.why;
  if (!finding.mend.empty())
    diagnostic.attachNote() << "mend: " << finding.mend;
  diagnostic.report();

  llvm::json::Object object{
      {"kind", finding.kind.str()},          {"severity", finding.isNote ? "note" : "warning"},
      {"message", asText(finding.message)},  {"why", asText(finding.why)},
      {"mend", asText(finding.mend)},        {"op", asText(op->getName().getStringRef())},
      {"in_loop", loopAround(op) != nullptr}};
  addLocation(object, op->getLoc());
  object["numbers"] = std::move(finding.numbers);
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(object));
  said.push_back(StringAttr::get(module.getContext(), text));
}

Findings::~Findings() {
  if (said.empty())
    return;
  SmallVector<Attribute> all;
  if (auto before = module->getAttrOfType<ArrayAttr>(findingsAttribute))
    llvm::append_range(all, before);
  llvm::append_range(all, said);
  module->setAttr(findingsAttribute, ArrayAttr::get(module.getContext(), all));
}
