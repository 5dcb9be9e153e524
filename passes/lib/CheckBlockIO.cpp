//===- CheckBlockIO.cpp - Which accesses can't be 2D block messages -------===//

#include "XeSmith/Findings.h"
#include "XeSmith/Numbers.h"
#include "XeSmith/Passes.h"
#include "XeSmith/TritonIR.h"

#include <numeric>

namespace mlir::xesmith {
#define GEN_PASS_DEF_CHECKBLOCKIO
#include "XeSmith/Passes.h.inc"

namespace {

// Of the 2D block messages (the backend's verifier holds them to the same).
constexpr int64_t pitchMultipleBytes = 16;
constexpr int64_t leastPitchBytes = 64;
constexpr int64_t leastWidthBytes = 64;
constexpr int64_t mostWidthBytes = int64_t(1) << 24;
constexpr int64_t baseAlignmentBytes = 64;

struct Obstacle {
  std::string why;
  std::string mend;
};

class CheckBlockIO : public impl::CheckBlockIOBase<CheckBlockIO> {
  void runOnOperation() override;

  std::optional<Obstacle> obstacle(Operation *op, const TypeView &block);
  Obstacle pointerObstacle(Operation *op, const TypeView &block);
  std::optional<Obstacle> surfaceObstacle(Operation *op, const TypeView &block);
  std::optional<Obstacle> layoutObstacle(Operation *op, const TypeView &block);
  std::string stepText(Slope slope);

  Numbers numbers;
  bool lowered = false;
};

std::string bytesText(int64_t bytes) { return std::to_string(bytes) + " B"; }

/// The layout of the tensor that is moved, which of a store is the stored value's.
std::string movedEncoding(Operation *op, const TypeView &block) {
  if (isStore(op)) {
    Value stored = operand(op, 1);
    return stored ? viewType(stored.getType()).encoding : "";
  }
  return op->getNumResults() ? viewType(op->getResult(0).getType()).encoding : block.encoding;
}

void CheckBlockIO::runOnOperation() {
  ModuleOp module = getOperation();
  lowered = isIntelTTGIR(module);
  if (lowered && !hasBlockIO(module))
    return; // the compiler takes the device for one without 2D block messages
  Findings findings(module);
  numbers = Numbers();
  module.walk([&](Operation *op) {
    bool store = isStore(op);
    if ((!isLoad(op) && !store) || !operand(op, 0))
      return;
    TypeView block = viewType(op->getOperand(0).getType());
    if (!block.ofPointers)
      return;
    std::optional<Obstacle> found = obstacle(op, block);
    if (!found)
      return;
    Finding finding;
    finding.kind = store ? "store-not-2d-block" : "load-not-2d-block";
    // Nothing of one dimension can be a 2D block: that is worth knowing, and no fault.
    finding.isNote = block.shape.size() < 2 || (store && !loopAround(op));
    finding.message = std::string("this ") + (store ? "store" : "load") + " of " +
                      block.shapeText() + "x" + block.element + " cannot be a 2D block message";
    finding.why = found->why;
    finding.mend = found->mend;
    finding.numbers = llvm::json::Object{{"element_bits", int64_t(block.elementBits())},
                                         {"tile_bytes", block.bytes()},
                                         {"block_io_intent", blockIOIntent(op).has_value()}};
    findings.add(op, std::move(finding));
  });
}

std::optional<Obstacle> CheckBlockIO::obstacle(Operation *op, const TypeView &block) {
  unsigned bits = block.elementBits();
  if (block.shape.size() < 2)
    return Obstacle{block.shape.empty() ? "it moves one element; a 2D block needs two dimensions"
                                        : "it moves one dimension; a 2D block needs two",
                    ""};
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
    return Obstacle{"2D blocks hold elements of 8, 16, 32 or 64 bits, not " + block.element, ""};
  if (block.kind == TypeKind::Tensor) {
    // The backend may see the rectangle by itself, and then says so.
    if (lowered && blockIOIntent(op))
      return layoutObstacle(op, block);
    return pointerObstacle(op, block);
  }
  if (block.shape.size() > 2)
    return Obstacle{"the block has " + std::to_string(block.shape.size()) +
                        " dimensions; several compiler versions fall back there",
                    "make a block of two dimensions per batch, with the batch in its base"};
  if (std::optional<Obstacle> found = surfaceObstacle(op, block))
    return found;
  return layoutObstacle(op, block);
}

std::string CheckBlockIO::stepText(Slope slope) {
  switch (slope.kind) {
  case Slope::Constant:
    return std::to_string(slope.constant);
  case Slope::Symbolic:
    return "`" + slope.symbol + "`";
  case Slope::Unknown:
    return "unknown to the compiler";
  }
  return "";
}

/// What keeps a tensor of pointers from being one rectangle in memory, most telling first.
Obstacle CheckBlockIO::pointerObstacle(Operation *op, const TypeView &block) {
  Value pointer = op->getOperand(0);
  unsigned rank = block.shape.size();
  std::string why = "a tensor of pointers";
  Slope last = numbers.slope(pointer, rank - 1), row = numbers.slope(pointer, rank - 2);
  bool lastIsOne = last.kind == Slope::Constant && last.constant == 1;
  bool rowIsOne = row.kind == Slope::Constant && row.constant == 1;
  if (lastIsOne || rowIsOne)
    why += (lastIsOne ? " with row stride " + stepText(row)
                      : " that lies transposed in memory, with column stride " + stepText(last)) +
           "; nothing states its width and pitch";
  else
    why += "; the stride of its last dimension is " + stepText(last) +
           (last.kind == Slope::Unknown ? "" : ", not known to be 1");
  for (unsigned dimension : {rank - 2, rank - 1})
    if (std::string modulo = numbers.slope(pointer, dimension).modulo; !modulo.empty())
      why += "; the offset along dimension " + std::to_string(dimension) + " is taken modulo `" +
             modulo + "`";
  if (maskOf(op))
    why += "; it is masked";
  if (rank > 2)
    why += "; it has " + std::to_string(rank) + " dimensions";
  return {why, "tl.make_block_ptr or tl.make_tensor_descriptor with shape, strides and the last "
               "stride a constant 1; boundary checks take the mask's place"};
}

/// Sizes, strides and base, by what is known when the kernel is compiled.
std::optional<Obstacle> CheckBlockIO::surfaceObstacle(Operation *op, const TypeView &block) {
  Operation *maker = blockMaker(op->getOperand(0));
  if (!maker)
    return std::nullopt; // a descriptor from the host: its maker has seen to it
  ValueRange sizes = makerSizes(maker), strides = makerStrides(maker);
  if (strides.size() != 2)
    return std::nullopt;
  int64_t elementBytes = block.elementBits() / 8;
  int fast = numbers.constant(strides[1]) == 1 ? 1 : numbers.constant(strides[0]) == 1 ? 0 : -1;
  if (fast < 0) {
    std::string stride = numbers.text(strides[1]);
    return Obstacle{"the stride of its last dimension is " +
                        (stride.empty() ? "no expression of the arguments" : "`" + stride + "`") +
                        ", not known to be 1",
                    "give the stride as the constant 1, or leave the argument to Triton's "
                    "specialisation on 1"};
  }
  if (fast == 0 && block.elementBits() == 8)
    return Obstacle{"it lies transposed in memory; blocks of 8-bit elements cannot be transposed",
                    "keep a transposed copy of this operand"};
  Value pitch = strides[1 - fast], width = sizes[fast];
  std::string pitchText = numbers.text(pitch), widthText = numbers.text(width);
  if (std::optional<int64_t> stride = numbers.constant(pitch)) {
    int64_t bytes;
    if (__builtin_mul_overflow(*stride, elementBytes, &bytes) || bytes % pitchMultipleBytes)
      return Obstacle{"its pitch is " + std::to_string(*stride) + " elements of " +
                          bytesText(elementBytes) + ", not a multiple of " +
                          bytesText(pitchMultipleBytes),
                      "pad the rows to a multiple of 16 B"};
    if (bytes < leastPitchBytes)
      return Obstacle{
          "its pitch is " + bytesText(bytes) + "; the least is " + bytesText(leastPitchBytes), ""};
  } else if (numbers.divisor(pitch) * elementBytes % pitchMultipleBytes) {
    return Obstacle{
        "its pitch is " + (pitchText.empty() ? std::string("a value") : "`" + pitchText + "`") +
            " times " + bytesText(elementBytes) + ", not known to be a multiple of " +
            bytesText(pitchMultipleBytes),
        isStore(op) ? "pass a stride that 16 divides; some versions write 2D blocks here without "
                      "this proof, which a card may refuse"
                    : "pass a stride that 16 divides, so that Triton specialises on it"};
  }
  if (std::optional<int64_t> size = numbers.constant(width)) {
    int64_t bytes;
    if (__builtin_mul_overflow(*size, elementBytes, &bytes) || bytes < leastWidthBytes ||
        bytes > mostWidthBytes)
      return Obstacle{"its surface is " + std::to_string(*size) + " elements of " +
                          bytesText(elementBytes) + " wide; a 2D block needs " +
                          bytesText(leastWidthBytes) + " to 2^24 B",
                      ""};
  }
  // The start of a tensor is aligned at run time; what is added to it is known here.
  Value base = operand(maker, 0);
  if (base && !functionArgument(base)) {
    Operation *moved = base.getDefiningOp();
    if (moved && moved->getName().getStringRef() == "tt.addptr" && operand(moved, 1) &&
        functionArgument(operand(moved, 0)))
      if (std::optional<int64_t> offset = numbers.constant(operand(moved, 1));
          offset && *offset % (baseAlignmentBytes / std::gcd(baseAlignmentBytes, elementBytes)))
        return Obstacle{"its base stands " + std::to_string(*offset) + " elements of " +
                            bytesText(elementBytes) + " into the tensor, not at a multiple of " +
                            bytesText(baseAlignmentBytes),
                        "move the block by its offsets and leave its base at the tensor's start"};
  }
  return std::nullopt;
}

/// After the layouts are chosen: several versions make 2D blocks for DPAS layouts only.
std::optional<Obstacle> CheckBlockIO::layoutObstacle(Operation *op, const TypeView &block) {
  if (!lowered)
    return std::nullopt;
  std::string encoding = movedEncoding(op, block);
  if (encoding.empty() || isDpas(encoding) || isDpasOperand(encoding))
    return std::nullopt;
  return Obstacle{"its layout is " + shortEncoding(encoding) +
                      ", neither an operand nor a result of DPAS: several compiler versions make "
                      "2D blocks for those only",
                  "use the loaded tile as an operand of tl.dot as it is"};
}

} // namespace
} // namespace mlir::xesmith
