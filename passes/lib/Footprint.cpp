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

static SmallVector<Share> sharesOf(StringRef encoding, int64_t lanes, unsigned depth) {
  SmallVector<Share> shares;
  if (depth > 4 || lanes < 1)
    return shares;
  StringRef name = encodingName(encoding);
  if (name == "slice") {
    shares = sharesOf(encodingText(encoding, "parent"), lanes, depth + 1);
    SmallVector<int64_t> dim = encodingInts(encoding, "dim");
    if (dim.size() != 1 || dim[0] < 0 || dim[0] >= int64_t(shares.size()))
      return {};
    shares.erase(shares.begin() + dim[0]);
    return shares;
  }
  if (name == "blocked") {
    SmallVector<int64_t> lane = encodingInts(encoding, "sizePerThread");
    SmallVector<int64_t> threads = encodingInts(encoding, "threadsPerWarp");
    SmallVector<int64_t> warps = encodingInts(encoding, "warpsPerCTA");
    if (!areExtents(lane, lane.size()) || !areExtents(threads, lane.size()) ||
        !areExtents(warps, lane.size()))
      return {};
    for (size_t i = 0; i < lane.size(); ++i)
      shares.push_back({lane[i], lane[i] * std::min(threads[i] * warps[i], mostExtent)});
    return shares;
  }
  bool ofOperand = isDpasOperand(encoding);
  if (!ofOperand && !isDpas(encoding))
    return {};
  StringRef dpas = ofOperand ? encodingText(encoding, "parent") : encoding;
  SmallVector<int64_t> warps = encodingInts(dpas, "warpsPerCTA");
  SmallVector<int64_t> index =
      ofOperand ? encodingInts(encoding, "opIdx") : SmallVector<int64_t>{2};
  if (index.size() != 1 || index[0] < 0 || index[0] > 2)
    return {};
  SmallVector<int64_t> tile = encodingInts(dpas, index[0] == 0 ? "A" : index[0] == 1 ? "B" : "C");
  size_t rank = warps.size();
  if (rank < 2 || !areExtents(warps, rank) || !areExtents(tile, rank))
    return {};
  for (size_t i = 0; i < rank; ++i) {
    // An operand is whole along K, for each sub-group that needs it.
    bool alongK = (index[0] == 0 && i == rank - 1) || (index[0] == 1 && i == rank - 2);
    int64_t lane = i == rank - 1 ? std::max<int64_t>(1, tile[i] / lanes) : tile[i];
    shares.push_back({lane, tile[i] * (alongK ? 1 : warps[i])});
  }
  return shares;
}

SmallVector<Share> xesmith::sharesOf(StringRef encoding, int64_t lanes) {
  return ::sharesOf(encoding, lanes, 0);
}

int64_t xesmith::elementsPerLane(const TypeView &tensor, int64_t warps, int64_t lanes) {
  SmallVector<Share> shares = sharesOf(tensor.encoding, lanes);
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

/// Elements that lie together in a lane, along the fastest dimension of a blocked layout.
static int64_t vectorOf(StringRef encoding) {
  SmallVector<int64_t> lane = encodingInts(encoding, "sizePerThread");
  SmallVector<int64_t> order = encodingInts(encoding, "order");
  bool known = encodingName(encoding) == "blocked" && !order.empty() && order[0] >= 0 &&
               order[0] < int64_t(lane.size());
  return known ? std::clamp<int64_t>(lane[order[0]], 1, 64) : 1;
}

/// A conversion through memory: the part of the tile that both layouts deal out at a time, with
/// rows padded against bank conflicts.
static int64_t conversionBytes(Operation *op, int64_t lanes) {
  TypeView source = viewType(op->getOperand(0).getType());
  TypeView result = viewType(op->getResult(0).getType());
  SmallVector<Share> from = sharesOf(source.encoding, lanes);
  SmallVector<Share> to = sharesOf(result.encoding, lanes);
  size_t rank = source.shape.size();
  bool stays = source.encoding == result.encoding ||
               (isDpas(source.encoding) && isDpasOperand(result.encoding) &&
                StringRef(result.encoding).contains(source.encoding) &&
                encodingInts(result.encoding, "opIdx") == SmallVector<int64_t>{0});
  if (stays || !rank || from.size() != rank || to.size() != rank)
    return 0;
  SmallVector<int64_t> order = encodingInts(result.encoding, "order");
  size_t fastest =
      !order.empty() && order[0] >= 0 && order[0] < int64_t(rank) ? order[0] : rank - 1;
  int64_t bytes = elementBytes(source);
  for (size_t i = 0; i < rank; ++i) {
    int64_t extent = std::min(source.shape[i], std::max(from[i].tile, to[i].tile));
    if (i == fastest && rank > 1)
      extent += std::max(vectorOf(source.encoding), vectorOf(result.encoding));
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes))
      return 0;
  }
  return bytes;
}

/// A reduction across sub-groups: one partial result of each, for every row.
static int64_t reductionBytes(Operation *op, int64_t lanes) {
  auto axis = op->getAttrOfType<IntegerAttr>("axis");
  if (!axis || axis.getValue().getActiveBits() > 8)
    return 0;
  int64_t bytes = 0;
  for (Value value : op->getOperands()) {
    TypeView view = viewType(value.getType());
    uint64_t along = axis.getValue().getZExtValue();
    StringRef encoding = view.encoding;
    SmallVector<int64_t> warps = encodingInts(encoding, "warpsPerCTA");
    if (along >= view.shape.size() || warps.size() != view.shape.size())
      return 0;
    int64_t across = warps[along];
    if (across <= 1 || across > mostExtent || view.shape[along] < 1)
      return 0;
    bytes += view.elements() / view.shape[along] * across * elementBytes(view);
  }
  return bytes;
}

int64_t xesmith::scratchBytes(Operation *op, int64_t lanes) {
  StringRef name = op->getName().getStringRef();
  if (name == "ttg.convert_layout" && op->getNumOperands() == 1 && op->getNumResults() == 1)
    return conversionBytes(op, lanes);
  return name == "tt.reduce" ? reductionBytes(op, lanes) : 0;
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
