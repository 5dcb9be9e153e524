//===- Footprint.cpp - What values take of registers and local memory -----===//

#include "XeSmith/Footprint.h"

#include "mlir/IR/BuiltinAttributes.h"
#include <algorithm>

using namespace mlir;
using namespace mlir::xesmith;

/// No layout deals out more than this along a dimension; malformed ones are not followed.
constexpr int64_t mostExtent = 1 << 20;

static bool areExtents(ArrayRef<int64_t> numbers, size_t rank) {
  return numbers.size() == rank &&
         llvm::all_of(numbers, [](int64_t number) { return number >= 1 && number <= mostExtent; });
}

SmallVector<Share> xesmith::sharesOf(const Encoding &encoding, int64_t lanes) {
  SmallVector<Share> shares;
  if (lanes < 1)
    return shares;
  if (encoding.kind == "slice" && encoding.parent()) {
    shares = sharesOf(*encoding.parent(), lanes);
    int64_t dim = encoding.integer("dim", -1);
    if (dim < 0 || dim >= int64_t(shares.size()))
      return {};
    shares.erase(shares.begin() + dim);
    return shares;
  }
  if (encoding.kind == "blocked") {
    SmallVector<int64_t> lane = encoding.integers("sizePerThread");
    SmallVector<int64_t> threads = encoding.integers("threadsPerWarp");
    SmallVector<int64_t> warps = encoding.integers("warpsPerCTA");
    if (!areExtents(lane, lane.size()) || !areExtents(threads, lane.size()) ||
        !areExtents(warps, lane.size()))
      return {};
    for (size_t i = 0; i < lane.size(); ++i)
      shares.push_back({lane[i], lane[i] * std::min(threads[i] * warps[i], mostExtent)});
    return shares;
  }
  bool ofOperand = encoding.isDpasOperand();
  if (!ofOperand && !encoding.isDpas())
    return {};
  const Encoding &dpas = ofOperand ? *encoding.parent() : encoding;
  SmallVector<int64_t> warps = dpas.integers("warpsPerCTA");
  int64_t index = ofOperand ? encoding.integer("opIdx", -1) : 2;
  if (index < 0 || index > 2)
    return {};
  SmallVector<int64_t> tile = dpas.integers(index == 0 ? "A" : index == 1 ? "B" : "C");
  size_t rank = warps.size();
  if (rank < 2 || !areExtents(warps, rank) || !areExtents(tile, rank))
    return {};
  for (size_t i = 0; i < rank; ++i) {
    // An operand is whole along K, for each sub-group that needs it.
    bool alongK = (index == 0 && i == rank - 1) || (index == 1 && i == rank - 2);
    int64_t lane = i == rank - 1 ? std::max<int64_t>(1, tile[i] / lanes) : tile[i];
    shares.push_back({lane, tile[i] * (alongK ? 1 : warps[i])});
  }
  return shares;
}

int64_t xesmith::elementsPerLane(const TypeView &tensor, int64_t warps, int64_t lanes) {
  std::optional<Encoding> encoding = parseEncoding(tensor.encoding);
  SmallVector<Share> shares = encoding ? sharesOf(*encoding, lanes) : SmallVector<Share>();
  if (shares.size() != tensor.shape.size())
    return llvm::divideCeil(std::max<int64_t>(tensor.elements(), 0),
                            uint64_t(std::max<int64_t>(1, warps * lanes)));
  int64_t count = 1;
  for (auto [extent, share] : llvm::zip(tensor.shape, shares))
    if (extent < 0 || extent > mostExtent ||
        __builtin_mul_overflow(count,
                               int64_t(llvm::divideCeil(uint64_t(extent), uint64_t(share.tile))) *
                                   std::min(share.lane, extent),
                               &count))
      return 0;
  return count;
}

std::string xesmith::tileText(const TypeView &tile) {
  return tile.shapeText() + "x" + (tile.ofPointers ? "pointer" : tile.element);
}

static int64_t elementBytes(const TypeView &view) {
  return view.ofPointers ? 8 : std::max(1u, view.elementBits() / 8);
}

/// A conversion through memory; 0 too where a layout is not known.
static int64_t conversionBytes(Operation *op) {
  TypeView tile = viewType(op->getOperand(0).getType());
  std::optional<Encoding> source = parseEncoding(tile.encoding);
  std::optional<Encoding> result = parseEncoding(viewType(op->getResult(0).getType()).encoding);
  if (!source || !result)
    return 0;
  return conversionSlmBytes(*source, *result, tile.shape, elementBytes(tile) * 8).value_or(0);
}

/// A reduction across sub-groups: one partial result of each, for every row.
static int64_t reductionBytes(Operation *op) {
  auto axis = op->getAttrOfType<IntegerAttr>("axis");
  if (!axis || axis.getValue().getActiveBits() > 8)
    return 0;
  int64_t bytes = 0;
  for (Value value : op->getOperands()) {
    TypeView view = viewType(value.getType());
    uint64_t along = axis.getValue().getZExtValue();
    std::optional<Encoding> encoding = parseEncoding(view.encoding);
    SmallVector<int64_t> warps =
        encoding ? encoding->integers("warpsPerCTA") : SmallVector<int64_t>();
    if (along >= view.shape.size() || warps.size() != view.shape.size())
      return 0;
    int64_t across = warps[along];
    if (across <= 1 || across > mostExtent || view.shape[along] < 1)
      return 0;
    bytes += view.elements() / view.shape[along] * across * elementBytes(view);
  }
  return bytes;
}

int64_t xesmith::scratchBytes(Operation *op) {
  StringRef name = op->getName().getStringRef();
  if (name == "ttg.convert_layout" && op->getNumOperands() == 1 && op->getNumResults() == 1)
    return conversionBytes(op);
  return name == "tt.reduce" ? reductionBytes(op) : 0;
}

//===----------------------------------------------------------------------===//
// Lifetimes
//===----------------------------------------------------------------------===//

Lifetimes::Lifetimes(Operation *function) {
  function->walk([&](Operation *op, const WalkStage &stage) {
    if (stage.isBeforeAllRegions()) {
      places[op] = {order.size(), order.size()};
      order.push_back(op);
    }
    if (stage.isAfterAllRegions())
      places[op].second = order.size() - 1;
  });
}

std::pair<int64_t, int64_t> Lifetimes::placesOf(Value value) const {
  Region *home = value.getParentRegion();
  Operation *start = value.getDefiningOp();
  bool bodyValue = start == nullptr;
  if (bodyValue)
    start = home->getParentOp();
  std::pair<int64_t, int64_t> at = places.lookup(start);
  // A result exists when its operation's body has run; a body's argument from the body's start.
  int64_t first = bodyValue ? at.first : at.second, last = first;
  for (Operation *user : value.getUsers()) {
    int64_t place = places.lookup(user).first;
    // To the end of every loop that the value comes into from outside.
    for (Operation *loop = loopAround(user); loop && home->isProperAncestor(&loop->getRegion(0));
         loop = loopAround(loop))
      place = places.lookup(loop).second;
    last = std::max(last, place);
  }
  return {first, last};
}
