//===- CheckRegisters.cpp - Register pressure before native code ----------===//

#include "XeSmith/Findings.h"
#include "XeSmith/Footprint.h"
#include "XeSmith/Passes.h"

#include "llvm/ADT/MapVector.h"

namespace mlir::xesmith {
#define GEN_PASS_DEF_CHECKREGISTERS
#include "XeSmith/Passes.h.inc"

namespace {

class CheckRegisters : public impl::CheckRegistersBase<CheckRegisters> {
public:
  using CheckRegistersBase::CheckRegistersBase;
  void runOnOperation() override;

private:
  void check(Operation *function, int64_t warps, int64_t lanes, Findings &findings);
};

constexpr int64_t registerBytes = 64;
/// Message headers, addresses, the thread's own payload: what every kernel has beside its tiles.
constexpr int64_t reservedBytes = 8 * registerBytes;

/// Bytes of a sub-group's registers for a value: 0 for what costs none of its own, such as a
/// scalar spread over a tile.
int64_t registerBytesOf(Value value, int64_t warps, int64_t lanes) {
  TypeView view = viewType(value.getType());
  if (view.kind == TypeKind::BlockPointer)
    return registerBytes; // the payload of its message
  if (view.kind != TypeKind::Tensor)
    return 0;
  if (Operation *op = value.getDefiningOp())
    if (isa<arith::ConstantOp>(op) || op->getName().getStringRef() == "tt.make_range")
      return 0;
  int64_t count = elementsPerLane(view, warps, lanes);
  if (view.ofPointers) {
    // An address for each message: of what lies together in a lane the first.
    std::optional<Encoding> encoding = parseEncoding(view.encoding);
    std::optional<int64_t> vector =
        encoding ? contiguousPerThread(*encoding, view.shape.size()) : std::nullopt;
    if (vector && *vector > 0)
      count = llvm::divideCeil(uint64_t(count), uint64_t(*vector));
    return count * lanes * 8;
  }
  return llvm::divideCeil(uint64_t(count) * uint64_t(lanes) * view.elementBits(), 8u);
}

/// The value whose registers a spread, broadcast or expanded one uses.
Value rootOf(Value value) {
  for (unsigned depth = 0; depth < maxDepth; ++depth) {
    Operation *op = value.getDefiningOp();
    StringRef name = op ? op->getName().getStringRef() : "";
    if ((name != "tt.splat" && name != "tt.broadcast" && name != "tt.expand_dims") ||
        !throughShape(op))
      return value;
    value = throughShape(op);
  }
  return value;
}

struct Live {
  Value value;
  int64_t first, last, bytes;
};

using Lives = llvm::MapVector<Value, Live>;

/// Every value that takes registers, and where.
Lives livesOf(const Lifetimes &lifetimes, int64_t warps, int64_t lanes) {
  Lives lives;
  auto add = [&](Value value) {
    auto [first, last] = lifetimes.placesOf(value);
    Value root = rootOf(value);
    if (root != value) { // its uses are uses of the root
      if (auto found = lives.find(root); found != lives.end())
        found->second.last = std::max(found->second.last, last);
      return;
    }
    if (int64_t bytes = registerBytesOf(value, warps, lanes); bytes > 0 && last > first)
      lives[value] = {value, first, last, bytes};
  };
  for (Operation *op : lifetimes.operations()) {
    // The steps of a reduction are no tiles.
    StringRef name = op->getName().getStringRef();
    for (Region &region : op->getRegions())
      for (Block &block : region)
        if (name != "tt.reduce" && name != "tt.scan" && name != "tt.func")
          for (BlockArgument argument : block.getArguments())
            add(argument);
    for (Value result : op->getResults())
      add(result);
  }
  return lives;
}

/// What a dot reads until its last instruction: A and B. Its accumulator is written in place.
SmallVector<Live> readBy(Operation *op, int64_t place, const Lives &lives) {
  SmallVector<Live> read;
  if (!isDot(op))
    return read;
  for (unsigned index : {0u, 1u}) {
    auto found = lives.find(operand(op, index));
    bool again = index == 1 && operand(op, 0) == operand(op, 1);
    if (found != lives.end() && found->second.last == place && !again)
      read.push_back(found->second);
  }
  return read;
}

std::string describe(const Live &live) {
  TypeView view = viewType(live.value.getType());
  Operation *op = live.value.getDefiningOp();
  FileLineColLoc at = kernelLocation(live.value.getLoc());
  std::string text = view.kind == TypeKind::BlockPointer
                         ? "the block pointer of " + view.shapeText() + "x" + view.element
                         : tileText(view);
  text += op ? " of " + op->getName().getStringRef().str() : " carried by the loop";
  if (at)
    text += " (line " + std::to_string(at.getLine()) + ")";
  return text + ", " + std::to_string(live.bytes) + " B";
}

void CheckRegisters::check(Operation *function, int64_t warps, int64_t lanes, Findings &findings) {
  Lifetimes lifetimes(function);
  ArrayRef<Operation *> order = lifetimes.operations();
  Lives lives = livesOf(lifetimes, warps, lanes);
  // After each operation: what begins adds, what has ended is gone.
  SmallVector<int64_t> change(order.size() + 1, 0);
  for (auto &[value, live] : lives) {
    change[live.first] += live.bytes;
    change[live.last] -= live.bytes;
  }
  int64_t now = 0, peak = 0, at = -1;
  for (size_t place = 0; place < order.size(); ++place) {
    now += change[place];
    int64_t operands = 0;
    for (const Live &live : readBy(order[place], place, lives))
      operands += live.bytes;
    if (now + operands > peak || (isDot(order[place]) && now + operands == peak)) {
      peak = now + operands;
      at = place;
    }
  }
  int64_t grf = registers * registerBytes;
  if (at < 0 || peak + reservedBytes <= grf)
    return;
  SmallVector<Live> most = readBy(order[at], at, lives);
  for (auto &[value, live] : lives)
    if (live.first <= at && at < live.last)
      most.push_back(live);
  llvm::stable_sort(most, [](const Live &a, const Live &b) { return a.bytes > b.bytes; });
  Finding finding;
  finding.kind = "register-pressure";
  finding.message = "an estimated " + std::to_string(peak) +
                    " B of tiles live here in each thread, "
                    "of " +
                    std::to_string(grf) + " B of registers (" + std::to_string(registers) +
                    " of them)";
  for (const Live &live : ArrayRef(most).take_front(4))
    finding.why += (finding.why.empty() ? "" : "; ") + describe(live);
  if (most.size() > 4)
    finding.why += "; and " + std::to_string(most.size() - 4) + " more";
  finding.mend = registers < 256 ? "256 registers (grf_mode='256'), more warps or a smaller tile"
                                 : "more warps or a smaller tile";
  finding.numbers = llvm::json::Object{{"live_bytes_per_thread", peak},
                                       {"reserved_bytes_per_thread", reservedBytes},
                                       {"grf_bytes_per_thread", grf},
                                       {"registers", registers.getValue()}};
  findings.add(order[at], std::move(finding));
}

void CheckRegisters::runOnOperation() {
  ModuleOp module = getOperation();
  if (!isIntelTTGIR(module))
    return;
  if (registers < 1 || registers > 1024) {
    emitError(module.getLoc(), "a thread has 1 to 1024 registers");
    return signalPassFailure();
  }
  int64_t warps = moduleInteger(module, "ttg.num-warps", 4);
  int64_t lanes = moduleInteger(module, "ttg.threads-per-warp", 16);
  if (warps < 1 || warps > 1024 || lanes < 1 || lanes > 64)
    return; // no launch has these
  Findings findings(module);
  for (Operation &op : *module.getBody())
    if (op.getName().getStringRef() == "tt.func")
      check(&op, warps, lanes, findings);
}

} // namespace
} // namespace mlir::xesmith
