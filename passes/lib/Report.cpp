//===- Report.cpp - What a kernel holds, counted --------------------------===//

#include "XeSmith/Findings.h"
#include "XeSmith/Kernel.h"
#include "XeSmith/Launch.h"
#include "XeSmith/Passes.h"

#include <map>

namespace mlir::xesmith {
#define GEN_PASS_DEF_REPORT
#include "XeSmith/Passes.h.inc"

namespace {

namespace json = llvm::json;

class Report : public impl::ReportBase<Report> {
public:
  using ReportBase::ReportBase;
  void runOnOperation() override;

private:
  json::Object describe(Kernel &kernel);
};

/// As text, and as a number where every trip count is one.
void write(json::Object &object, StringRef name, const Amount &amount) {
  std::string text = amount.text();
  object[name] = text.empty() ? "0" : text;
  if (std::optional<double> total = amount.mean())
    object[(name + "_total").str()] = *total;
}

json::Object Report::describe(Kernel &kernel) {
  std::map<std::string, int64_t> counts, loads, stores;
  int64_t masked = 0, boundaryChecks = 0, prefetches = 0;
  json::Array dots, loops;
  struct PerLoop {
    int64_t dots = 0, loads = 0, stores = 0, prefetches = 0, flop = 0, bytes = 0;
  };
  SmallVector<PerLoop> perLoop(kernel.loops.size() + 1); // the last: outside of all
  for (Operation *op : kernel.operations) {
    ++counts[op->getName().getStringRef().str()];
    std::optional<unsigned> loop = kernel.loopOf(op);
    PerLoop &inner = perLoop[loop.value_or(kernel.loops.size())];
    inner.flop += flopOf(op);
    if (isDot(op) && dotShape(op) && op->getNumResults() == 1) {
      ++inner.dots;
      TypeView a = kernel.view(op->getOperand(0)), b = kernel.view(op->getOperand(1));
      TypeView result = kernel.view(op->getResult(0));
      std::optional<Encoding> layout = parseEncoding(result.encoding);
      json::Object dot{{"a", a.shapeText() + "x" + a.element},
                       {"b", b.shapeText() + "x" + b.element},
                       {"result", result.shapeText() + "x" + result.element},
                       {"in_loop", loop.has_value()},
                       {"layout", layout ? layout->shortText() : "none"}};
      addLocation(dot, op->getLoc());
      dots.push_back(std::move(dot));
    }
    bool load = isLoad(op) || isAtomic(op), store = isStore(op) || isAtomic(op);
    prefetches += isPrefetch(op);
    inner.prefetches += isPrefetch(op);
    if ((!load && !store) || !operand(op, 0))
      continue;
    std::string kind = accessKind(op).str();
    if (kernel.view(op->getOperand(0)).kind == TypeKind::Tensor)
      kind = "tensor_of_pointers";
    loads[kind] += load;
    stores[kind] += store;
    inner.loads += load;
    inner.stores += store;
    inner.bytes += bytesOf(op) * (load + store);
    masked += maskOf(op) != nullptr;
    boundaryChecks += !integersAttribute(op, "boundaryCheck").empty();
  }
  for (auto [index, loop] : llvm::enumerate(kernel.loops)) {
    const PerLoop &inner = perLoop[index];
    json::Object one{{"index", int64_t(index)},
                     {"dots", inner.dots},
                     {"loads", inner.loads},
                     {"stores", inner.stores},
                     {"prefetches", inner.prefetches},
                     {"flop_per_iteration", inner.flop},
                     {"bytes_per_iteration", inner.bytes}};
    if (std::optional<unsigned> outer = kernel.loopOf(loop))
      one["parent"] = int64_t(*outer);
    if (std::string trips = kernel.numbers.tripText(loop); !trips.empty())
      one["trips"] = trips;
    if (std::optional<int64_t> count = kernel.numbers.trips(loop))
      one["trip_count"] = *count;
    if (inner.bytes)
      one["flop_per_byte"] = double(inner.flop) / double(inner.bytes);
    addLocation(one, loop->getLoc());
    loops.push_back(std::move(one));
  }
  auto object = [](const std::map<std::string, int64_t> &numbers) {
    json::Object made;
    for (auto &[name, number] : numbers)
      if (number)
        made[json::isUTF8(name) ? name : json::fixUTF8(name)] = number;
    return made;
  };
  json::Object made{{"operations", object(counts)}, {"dots", std::move(dots)},
                    {"loads", object(loads)},       {"stores", object(stores)},
                    {"masked_accesses", masked},    {"boundary_checks", boundaryChecks},
                    {"prefetches", prefetches},     {"loops", std::move(loops)}};
  Amount flop = kernel.flop(), moved = kernel.bytesMoved();
  write(made, "flop_per_program", flop);
  write(made, "bytes_loaded_per_program", kernel.bytesLoaded());
  write(made, "bytes_stored_per_program", kernel.bytesStored());
  if (flop.mean() && moved.mean().value_or(0) > 0)
    made["flop_per_byte"] = *flop.mean() / *moved.mean();
  if (auto name = kernel.function->getAttrOfType<StringAttr>("sym_name"))
    made["name"] = json::fixUTF8(name.getValue());
  addLocation(made, kernel.function->getLoc());
  return made;
}

void Report::runOnOperation() {
  ModuleOp module = getOperation();
  FailureOr<Numbers> numbers = numbersOfLaunch(module, values, grid);
  if (failed(numbers))
    return signalPassFailure();
  json::Array functions;
  for (Operation &op : *module.getBody())
    if (op.getName().getStringRef() == "tt.func") {
      Kernel kernel(&op, *numbers);
      json::Object made = describe(kernel);
      emitRemark(op.getLoc()) << "[report] FLOP " << *made.getString("flop_per_program")
                              << ", bytes loaded " << *made.getString("bytes_loaded_per_program")
                              << ", bytes stored " << *made.getString("bytes_stored_per_program");
      functions.push_back(std::move(made));
    }
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(std::move(functions));
  module->setAttr(reportAttribute, StringAttr::get(module.getContext(), text));
}

} // namespace
} // namespace mlir::xesmith
