//===- Report.cpp - What a kernel holds, counted --------------------------===//

#include "XeSmith/Findings.h"
#include "XeSmith/Launch.h"
#include "XeSmith/Passes.h"
#include "XeSmith/TritonIR.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSwitch.h"
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
  json::Object kernel(Operation *function, Numbers &numbers);
};

/// An amount per run of the kernel's program: terms of (trip counts, number).
struct Amount {
  std::map<std::string, int64_t> terms;
  std::optional<int64_t> total = 0; // where every trip count is a number

  void add(const std::string &trips, std::optional<int64_t> times, int64_t amount) {
    if (!amount)
      return;
    terms[trips] += amount;
    int64_t more;
    if (!total || !times || __builtin_mul_overflow(*times, amount, &more) ||
        __builtin_add_overflow(*total, more, &*total))
      total = std::nullopt;
  }

  std::string text() const {
    std::string text;
    for (auto &[trips, number] : terms)
      text += (text.empty() ? "" : " + ") + (trips.empty() ? "" : trips + " * ") +
              std::to_string(number);
    return text.empty() ? "0" : text;
  }

  void write(json::Object &object, StringRef name) const {
    object[name] = text();
    if (total)
      object[(name + "_total").str()] = *total;
  }
};

StringRef operationName(Operation *op) { return op->getName().getStringRef(); }

/// Floating operations of one execution: each element once, a dot 2 m n k, an fma twice.
int64_t flopOf(Operation *op) {
  if (isDot(op)) {
    if (op->getNumOperands() < 2 || op->getNumResults() != 1)
      return 0;
    TypeView a = viewType(op->getOperand(0).getType());
    int64_t k = a.shape.empty() ? 0 : a.shape.back();
    return 2 * k * viewType(op->getResult(0).getType()).elements();
  }
  if (Operation *parent = op->getParentOp();
      parent && (operationName(parent) == "tt.reduce" || operationName(parent) == "tt.scan"))
    return 0; // counted at the reduction
  if (operationName(op) == "tt.reduce" || operationName(op) == "tt.scan") {
    int64_t steps = 0;
    op->walk([&](Operation *inner) {
      steps += inner != op && isa<arith::AddFOp, arith::MulFOp, arith::SubFOp, arith::MaxNumFOp,
                                  arith::MinNumFOp, arith::MaximumFOp, arith::MinimumFOp>(inner);
    });
    return op->getNumOperands() ? steps * viewType(op->getOperand(0).getType()).elements() : 0;
  }
  if (op->getNumResults() != 1 || !isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())))
    return 0;
  int64_t elements = viewType(op->getResult(0).getType()).elements();
  if (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp, arith::RemFOp, arith::NegFOp,
          arith::MaxNumFOp, arith::MinNumFOp, arith::MaximumFOp, arith::MinimumFOp>(op) ||
      operationName(op).starts_with("tt.precise_"))
    return elements;
  if (isa<math::FmaOp>(op))
    return 2 * elements;
  return isa_and_nonnull<math::MathDialect>(op->getDialect()) ? elements : 0;
}

StringRef kindOf(const TypeView &pointer) {
  switch (pointer.kind) {
  case TypeKind::BlockPointer:
    return "block_pointer";
  case TypeKind::Descriptor:
    return "descriptor";
  case TypeKind::Tensor:
    return "tensor_of_pointers";
  default:
    return "pointer";
  }
}

/// The product of the trip counts around an operation, as text ("" for none) and as a number.
std::pair<std::string, std::optional<int64_t>>
timesOf(Operation *op, Numbers &numbers, const llvm::DenseMap<Operation *, int64_t> &index) {
  std::string text;
  std::optional<int64_t> times = 1;
  for (Operation *loop = loopAround(op); loop; loop = loopAround(loop)) {
    std::string one = numbers.tripText(loop);
    if (one.empty())
      one = "trips" + std::to_string(index.lookup(loop));
    if (one.find(' ') != std::string::npos && !StringRef(one).starts_with("cdiv("))
      one = "(" + one + ")";
    text = one + (text.empty() ? "" : " * ") + text;
    std::optional<int64_t> count = numbers.trips(loop);
    if (!times || !count || __builtin_mul_overflow(*times, *count, &*times))
      times = std::nullopt;
  }
  return {text, times};
}

json::Object Report::kernel(Operation *function, Numbers &numbers) {
  std::map<std::string, int64_t> counts;
  std::map<std::string, int64_t> loads, stores;
  int64_t masked = 0, boundaryChecks = 0, prefetches = 0;
  json::Array dots, loops;
  llvm::DenseMap<Operation *, int64_t> index;
  Amount flop, loaded, stored;
  struct PerLoop {
    int64_t dots = 0, loads = 0, stores = 0, prefetches = 0, flop = 0, bytes = 0;
  };
  llvm::MapVector<Operation *, PerLoop> perLoop;
  function->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op == function)
      return;
    ++counts[operationName(op).str()];
    if (isa<scf::ForOp, scf::WhileOp>(op)) {
      index[op] = index.size();
      perLoop[op];
    }
    auto [trips, times] = timesOf(op, numbers, index);
    Operation *loop = loopAround(op);
    PerLoop &inner = perLoop[loop];
    int64_t operations = flopOf(op);
    flop.add(trips, times, operations);
    inner.flop += operations;
    if (isDot(op) && op->getNumOperands() >= 3 && op->getNumResults() == 1) {
      ++inner.dots;
      TypeView a = viewType(op->getOperand(0).getType()), b = viewType(op->getOperand(1).getType());
      TypeView result = viewType(op->getResult(0).getType());
      json::Object dot{{"a", a.shapeText() + "x" + a.element},
                       {"b", b.shapeText() + "x" + b.element},
                       {"result", result.shapeText() + "x" + result.element},
                       {"in_loop", loop != nullptr},
                       {"layout", shortEncoding(result.encoding)}};
      addLocation(dot, op->getLoc());
      dots.push_back(std::move(dot));
    }
    bool atomic = operationName(op).starts_with("tt.atomic");
    bool load = isLoad(op) || atomic, store = isStore(op) || atomic;
    prefetches += isPrefetch(op);
    inner.prefetches += isPrefetch(op);
    if ((!load && !store) || !operand(op, 0))
      return;
    TypeView pointer = viewType(op->getOperand(0).getType());
    if (load) {
      ++loads[kindOf(pointer).str()];
      ++inner.loads;
      loaded.add(trips, times, pointer.bytes());
    }
    if (store) {
      ++stores[kindOf(pointer).str()];
      ++inner.stores;
      stored.add(trips, times, pointer.bytes());
    }
    inner.bytes += pointer.bytes() * (load + store);
    masked += maskOf(op) != nullptr;
    if (auto checks = op->getAttrOfType<DenseI32ArrayAttr>("boundaryCheck"))
      boundaryChecks += !checks.empty();
  });
  for (auto &[loop, inner] : perLoop) {
    if (!loop)
      continue;
    json::Object one{{"index", index.lookup(loop)},
                     {"dots", inner.dots},
                     {"loads", inner.loads},
                     {"stores", inner.stores},
                     {"prefetches", inner.prefetches},
                     {"flop_per_iteration", inner.flop},
                     {"bytes_per_iteration", inner.bytes}};
    if (Operation *outer = loopAround(loop))
      one["parent"] = index.lookup(outer);
    if (std::string trips = numbers.tripText(loop); !trips.empty())
      one["trips"] = trips;
    if (std::optional<int64_t> count = numbers.trips(loop))
      one["trip_count"] = *count;
    if (inner.bytes)
      one["flop_per_byte"] = double(inner.flop) / double(inner.bytes);
    addLocation(one, loop->getLoc());
    loops.push_back(std::move(one));
  }
  auto object = [](const std::map<std::string, int64_t> &numbers) {
    json::Object made;
    for (auto &[name, number] : numbers)
      made[json::isUTF8(name) ? name : json::fixUTF8(name)] = number;
    return made;
  };
  json::Object made{{"operations", object(counts)}, {"dots", std::move(dots)},
                    {"loads", object(loads)},       {"stores", object(stores)},
                    {"masked_accesses", masked},    {"boundary_checks", boundaryChecks},
                    {"prefetches", prefetches},     {"loops", std::move(loops)}};
  flop.write(made, "flop_per_program");
  loaded.write(made, "bytes_loaded_per_program");
  stored.write(made, "bytes_stored_per_program");
  if (flop.total && loaded.total && stored.total && *loaded.total + *stored.total > 0)
    made["flop_per_byte"] = double(*flop.total) / double(*loaded.total + *stored.total);
  if (auto name = function->getAttrOfType<StringAttr>("sym_name"))
    made["name"] = json::fixUTF8(name.getValue());
  addLocation(made, function->getLoc());
  return made;
}

void Report::runOnOperation() {
  ModuleOp module = getOperation();
  FailureOr<Numbers> numbers = numbersOfLaunch(module, values, grid);
  if (failed(numbers))
    return signalPassFailure();
  json::Array functions;
  for (Operation &op : *module.getBody())
    if (operationName(&op) == "tt.func") {
      json::Object made = kernel(&op, *numbers);
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
