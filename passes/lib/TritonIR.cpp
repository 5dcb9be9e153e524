//===- TritonIR.cpp - Reading Triton IR without Triton's dialects ---------===//

#include "XeSmith/TritonIR.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::xesmith;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

/// Up to the first comma outside of brackets; what follows it goes to `rest`.
static StringRef firstPart(StringRef text, StringRef &rest) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '-' && i + 1 < text.size() && text[i + 1] == '>')
      ++i;
    else if (StringRef("<[{(").contains(c))
      ++depth;
    else if (StringRef(">]})").contains(c))
      --depth;
    else if (c == ',' && depth == 0) {
      rest = text.substr(i + 1).trim();
      return text.take_front(i);
    }
  }
  rest = "";
  return text;
}

/// `256x32xf16, #encoding` -> shape, element, encoding.
static void readShaped(StringRef body, TypeView &view) {
  StringRef rest;
  StringRef head = firstPart(body, rest);
  while (true) {
    StringRef digits = head.take_while([](char c) { return c >= '0' && c <= '9'; });
    int64_t extent;
    if (digits.empty() || !head.substr(digits.size()).starts_with("x") ||
        digits.getAsInteger(10, extent))
      break;
    view.shape.push_back(extent);
    head = head.drop_front(digits.size() + 1);
  }
  view.element = head.str();
  StringRef more;
  view.encoding = firstPart(rest, more).str();
}

static std::string printed(Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  attribute.print(stream);
  return text;
}

static std::string printed(Type type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  type.print(stream);
  return text;
}

/// A type of Triton's dialects: {"tt", "ptr<f16>"}. It is opaque in stock MLIR; inside Triton, where
/// it is registered, its text says the same. Empty for any other type.
static std::pair<std::string, std::string> tritonType(Type type) {
  if (auto opaque = dyn_cast<OpaqueType>(type))
    return {opaque.getDialectNamespace().str(), opaque.getTypeData().str()};
  StringRef dialect = type.getDialect().getNamespace();
  if (dialect != "tt" && dialect != "ttg")
    return {};
  // "!tt.ptr<f16>"
  return {dialect.str(), printed(type).substr(dialect.size() + 2)};
}

/// "ptr<f16>" or "ptr<f16, 1>" -> "f16".
static std::string pointee(StringRef data) {
  StringRef rest;
  if (!data.consume_front("ptr<") || !data.consume_back(">"))
    return "";
  return firstPart(data, rest).str();
}

TypeView xesmith::viewType(Type type) {
  TypeView view;
  if (auto tensor = dyn_cast<RankedTensorType>(type)) {
    view.kind = TypeKind::Tensor;
    view.shape.assign(tensor.getShape().begin(), tensor.getShape().end());
    if (auto [dialect, data] = tritonType(tensor.getElementType()); dialect == "tt") {
      view.element = pointee(data);
      view.ofPointers = true;
    } else
      view.element = printed(tensor.getElementType());
    if (Attribute encoding = tensor.getEncoding())
      view.encoding = printed(encoding);
    return view;
  }
  auto [dialect, text] = tritonType(type);
  StringRef data = text;
  if (dialect == "tt" && data.starts_with("ptr<")) {
    std::string inner = pointee(data);
    StringRef block = inner;
    view.ofPointers = true;
    if (block.consume_front("tensor<") && block.consume_back(">")) {
      view.kind = TypeKind::BlockPointer;
      readShaped(block, view);
    } else {
      view.kind = TypeKind::Pointer;
      view.element = inner;
    }
  } else if (dialect == "tt" && data.consume_front("tensordesc<") && data.consume_back(">")) {
    view.kind = TypeKind::Descriptor;
    view.ofPointers = true;
    StringRef rest, block = firstPart(data, rest);
    if (block.consume_front("tensor<") && block.consume_back(">"))
      readShaped(block, view);
    else
      readShaped(data, view);
  } else if (dialect == "ttg" && data.consume_front("memdesc<") && data.consume_back(">")) {
    view.kind = TypeKind::Memory;
    readShaped(data, view);
  } else
    view.element = printed(type);
  return view;
}

unsigned TypeView::elementBits() const {
  StringRef text = element;
  if (text == "index")
    return 64;
  if (text == "bf16")
    return 16;
  if (text == "tf32")
    return 32;
  if (text.starts_with("!tt.ptr"))
    return 64;
  if (!text.consume_front("si") && !text.consume_front("ui") && !text.consume_front("f") &&
      !text.consume_front("i"))
    return 0;
  unsigned bits = 0;
  StringRef digits = text.take_while([](char c) { return c >= '0' && c <= '9'; });
  return digits.getAsInteger(10, bits) || bits > 1024 ? 0 : bits;
}

int64_t TypeView::elements() const {
  int64_t count = 1;
  for (int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count))
      return 0;
  return count > (int64_t(1) << 40) ? 0 : count; // no block is this large
}

std::string TypeView::shapeText() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::interleave(shape, stream, "x");
  return text.empty() ? "1" : text;
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

Value xesmith::operand(Operation *op, unsigned index) {
  return index < op->getNumOperands() ? op->getOperand(index) : Value();
}

static StringRef nameOf(Operation *op) { return op->getName().getStringRef(); }

bool xesmith::isDot(Operation *op) {
  return nameOf(op) == "tt.dot" || nameOf(op) == "tt.dot_scaled";
}

bool xesmith::isLoad(Operation *op) {
  return llvm::StringSwitch<bool>(nameOf(op))
      .Cases({"tt.load", "tt.descriptor_load", "tt.experimental_descriptor_load"}, true)
      .Default(false);
}

bool xesmith::isStore(Operation *op) {
  return llvm::StringSwitch<bool>(nameOf(op))
      .Cases({"tt.store", "tt.descriptor_store", "tt.experimental_descriptor_store"}, true)
      .Default(false);
}

bool xesmith::isPrefetch(Operation *op) {
  return llvm::StringSwitch<bool>(nameOf(op))
      .Cases({"triton_intel_gpu.prefetch", "ttig.prefetch", "ttig.descriptor_prefetch"}, true)
      .Default(false);
}

bool xesmith::isBlockMaker(Operation *op) {
  return llvm::StringSwitch<bool>(nameOf(op))
      .Cases({"tt.make_tensor_ptr", "tt.make_tensor_descriptor",
              "tt.experimental_make_tensor_descriptor"},
             true)
      .Default(false);
}

bool xesmith::isPureTriton(Operation *op) {
  if (op->getNumRegions() || op->getNumSuccessors())
    return false;
  return isBlockMaker(op) ||
         llvm::StringSwitch<bool>(nameOf(op))
             .Cases({"tt.splat", "tt.broadcast", "tt.expand_dims", "tt.make_range", "tt.addptr"},
                    true)
             .Cases({"tt.reshape", "tt.trans", "tt.advance", "tt.bitcast", "tt.fp_to_fp"}, true)
             .Cases({"tt.ptr_to_int", "tt.int_to_ptr", "tt.get_program_id", "tt.get_num_programs"},
                    true)
             .Default(false);
}

Operation *xesmith::loopAround(Operation *op) {
  for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp())
    if (isa<scf::ForOp, scf::WhileOp>(parent))
      return parent;
  return nullptr;
}

static bool isPredicate(Value value) {
  Type type = value.getType();
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    type = tensor.getElementType();
  return type.isInteger(1);
}

Value xesmith::maskOf(Operation *op) {
  Value pointer = operand(op, 0);
  if (!pointer || (nameOf(op) != "tt.load" && nameOf(op) != "tt.store"))
    return {};
  TypeKind kind = viewType(pointer.getType()).kind;
  if (kind == TypeKind::BlockPointer || kind == TypeKind::Descriptor)
    return {};
  // A store's value may itself be a predicate: the mask is what comes after it.
  Value mask = operand(op, isStore(op) ? 2 : 1);
  return mask && isPredicate(mask) ? mask : Value();
}

Value xesmith::throughShape(Operation *op) {
  bool transparent = llvm::StringSwitch<bool>(nameOf(op))
                         .Cases({"tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape",
                                 "tt.trans", "ttg.convert_layout"},
                                true)
                         .Default(false);
  return transparent && op->getNumOperands() == 1 && op->getNumResults() == 1 ? op->getOperand(0)
                                                                              : Value();
}

/// The value that a loop's body argument or result starts from.
static Value initialOf(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast_or_null<scf::ForOp>(argument.getOwner()->getParentOp());
    unsigned index = argument.getArgNumber();
    if (loop && index > 0 && index - 1 < loop.getInitArgs().size())
      return loop.getInitArgs()[index - 1];
    return {};
  }
  if (auto loop = value.getDefiningOp<scf::ForOp>())
    return loop.getInitArgs()[cast<OpResult>(value).getResultNumber()];
  return {};
}

Operation *xesmith::blockMaker(Value block) {
  for (unsigned depth = 0; block && depth < maxDepth; ++depth) {
    Operation *op = block.getDefiningOp();
    if (op && isBlockMaker(op))
      return op;
    if (op && (nameOf(op) == "tt.advance" || nameOf(op) == "ttg.convert_layout" ||
               nameOf(op) == "builtin.unrealized_conversion_cast"))
      block = operand(op, 0);
    else
      block = initialOf(block);
  }
  return nullptr;
}

/// (base, sizes..., strides...[, offsets...]): the rank is that of the block.
static int64_t makerRank(Operation *maker) {
  if (!maker->getNumResults() || !maker->getNumOperands())
    return 0;
  int64_t rank = viewType(maker->getResult(0).getType()).shape.size();
  return static_cast<int64_t>(maker->getNumOperands()) >= 1 + 2 * rank ? rank : 0;
}

ValueRange xesmith::makerSizes(Operation *maker) {
  return ValueRange(maker->getOperands())
      .slice(std::min<size_t>(1, maker->getNumOperands()), makerRank(maker));
}

ValueRange xesmith::makerStrides(Operation *maker) {
  int64_t rank = makerRank(maker);
  return ValueRange(maker->getOperands())
      .slice(std::min<size_t>(1 + rank, maker->getNumOperands()), rank);
}

std::optional<StringRef> xesmith::blockIOIntent(Operation *op) {
  for (StringRef name : {"triton_intel_gpu.block_io", "ttig.block_io"})
    if (auto text = op->getAttrOfType<StringAttr>(name))
      return text.getValue();
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Modules and encodings
//===----------------------------------------------------------------------===//

static bool hasAttributeWith(ModuleOp module, ArrayRef<StringRef> parts) {
  return llvm::any_of(module->getAttrs(), [&](NamedAttribute attribute) {
    StringRef name = attribute.getName().getValue();
    bool ours = name.starts_with("triton_intel_gpu.") || name.starts_with("ttig.");
    return ours && llvm::any_of(parts, [&](StringRef part) { return name.contains(part); });
  });
}

bool xesmith::isIntelTTGIR(ModuleOp module) {
  auto target = module->getAttrOfType<StringAttr>("ttg.target");
  if (!module->hasAttr("ttg.num-warps"))
    return false; // TTIR
  return (target && target.getValue().starts_with("xpu")) || hasAttributeWith(module, {"."});
}

bool xesmith::hasBlockIO(ModuleOp module) {
  return hasAttributeWith(module, {"support_sg_2d_block", "support_2d_block_io"});
}

bool xesmith::hasDpas(ModuleOp module) {
  return hasAttributeWith(module, {"support_dpas", "matrix_multiply_accumulate"});
}

int64_t xesmith::moduleInteger(ModuleOp module, StringRef name, int64_t otherwise) {
  auto number = module->getAttrOfType<IntegerAttr>(name);
  return number ? number.getInt() : otherwise;
}

StringRef xesmith::encodingName(StringRef encoding) {
  encoding.consume_front("#");
  return encoding.take_until([](char c) { return c == '<'; }).rsplit('.').second;
}

bool xesmith::isDpas(StringRef encoding) { return encodingName(encoding) == "dpas"; }

bool xesmith::isDpasOperand(StringRef encoding) {
  return encodingName(encoding) == "dot_op" && encoding.contains(".dpas<");
}

std::string xesmith::shortEncoding(StringRef encoding) {
  if (encoding.empty())
    return "none";
  std::string text = encodingName(encoding).str();
  size_t parent = encoding.find("parent = #");
  if (parent != StringRef::npos)
    text += " of " + encodingName(encoding.substr(parent + 9)).str();
  return text;
}

SmallVector<int64_t> xesmith::encodingInts(StringRef encoding, StringRef key) {
  SmallVector<int64_t> numbers;
  size_t begin = encoding.find('{');
  if (begin == StringRef::npos)
    return numbers;
  StringRef rest = encoding.substr(begin + 1);
  while (!rest.empty()) {
    StringRef more, part = firstPart(rest, more).trim();
    if (part.consume_front(key) && part.ltrim().starts_with("=")) {
      part = part.ltrim().drop_front().trim();
      part.consume_front("[");
      part = part.take_until([](char c) { return c == ']' || c == '}'; });
      SmallVector<StringRef> words;
      part.split(words, ',');
      for (StringRef word : words) {
        int64_t number;
        if (word.trim().getAsInteger(10, number))
          return {};
        numbers.push_back(number);
      }
      return numbers;
    }
    rest = more;
  }
  return numbers;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

Operation *xesmith::functionAround(Operation *op) {
  while (op && nameOf(op) != "tt.func")
    op = op->getParentOp();
  return op;
}

std::optional<unsigned> xesmith::functionArgument(Value value) {
  auto argument = dyn_cast_or_null<BlockArgument>(value);
  if (!argument || !argument.getOwner()->isEntryBlock())
    return std::nullopt;
  Operation *parent = argument.getOwner()->getParentOp();
  if (!parent || nameOf(parent) != "tt.func")
    return std::nullopt;
  return argument.getArgNumber();
}

std::string xesmith::argumentName(BlockArgument argument) {
  if (auto name = dyn_cast<NameLoc>(argument.getLoc()))
    return name.getName().str();
  return "arg" + std::to_string(argument.getArgNumber());
}

int64_t xesmith::argumentDivisibility(BlockArgument argument) {
  Operation *function = argument.getOwner()->getParentOp();
  auto all = function ? function->getAttrOfType<ArrayAttr>("arg_attrs") : ArrayAttr();
  if (!all || argument.getArgNumber() >= all.size())
    return 1;
  auto promises = dyn_cast<DictionaryAttr>(all[argument.getArgNumber()]);
  auto number = promises ? promises.getAs<IntegerAttr>("tt.divisibility") : IntegerAttr();
  if (!number || number.getValue().getActiveBits() > 31 || number.getInt() < 1)
    return 1;
  return number.getInt();
}

BlockArgument xesmith::baseArgument(Value pointer) {
  for (unsigned depth = 0; pointer && depth < maxDepth; ++depth) {
    if (functionArgument(pointer))
      return cast<BlockArgument>(pointer);
    Operation *op = pointer.getDefiningOp();
    if (op && (nameOf(op) == "tt.addptr" || nameOf(op) == "tt.advance" || isBlockMaker(op)))
      pointer = operand(op, 0);
    else if (op && throughShape(op))
      pointer = throughShape(op);
    else
      pointer = initialOf(pointer);
  }
  return {};
}
