//===- TritonIR.cpp - Reading Triton IR without Triton's dialects ---------===//

#include "XeSmith/TritonIR.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/DenseSet.h"
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

std::string xesmith::printed(Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  attribute.print(stream);
  return text;
}

std::string xesmith::printed(Type type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  type.print(stream);
  return text;
}

/// The text of an encoding. MLIR's printer takes longer to set itself up than most passes run, so
/// what Triton's encodings look like is written here.
static std::string encodingText(Attribute encoding) {
  auto opaque = dyn_cast<OpaqueAttr>(encoding);
  StringRef data = opaque ? opaque.getAttrData() : "";
  StringRef body = data.drop_while([](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
  if (data.empty() || !llvm::isAlpha(data.front()) ||
      !(body.empty() || (body.starts_with("<") && body.ends_with(">"))))
    return printed(encoding);
  return ("#" + opaque.getDialectNamespace().getValue() + "." + data).str();
}

static std::string elementText(Type type) {
  if (auto integer = dyn_cast<IntegerType>(type); integer && integer.isSignless())
    return "i" + std::to_string(integer.getWidth());
  return type.isF16()    ? "f16"
         : type.isF32()  ? "f32"
         : type.isBF16() ? "bf16"
                         : printed(type);
}

/// "ptr<f16>" or "ptr<f16, 1>" -> "f16".
static std::string pointee(StringRef data) {
  StringRef rest;
  if (!data.consume_front("ptr<") || !data.consume_back(">"))
    return "";
  return firstPart(data, rest).str();
}

static OpaqueType opaqueOf(Type type, StringRef dialect) {
  auto opaque = dyn_cast<OpaqueType>(type);
  return opaque && opaque.getDialectNamespace() == dialect ? opaque : OpaqueType();
}

TypeKind xesmith::typeKind(Type type) {
  if (isa<RankedTensorType>(type))
    return TypeKind::Tensor;
  if (OpaqueType opaque = opaqueOf(type, "tt")) {
    StringRef data = opaque.getTypeData();
    if (data.starts_with("ptr<"))
      return data.starts_with("ptr<tensor<") ? TypeKind::BlockPointer : TypeKind::Pointer;
    if (data.starts_with("tensordesc<"))
      return TypeKind::Descriptor;
  }
  OpaqueType memory = opaqueOf(type, "ttg");
  return memory && memory.getTypeData().starts_with("memdesc<") ? TypeKind::Memory
                                                                : TypeKind::Scalar;
}

bool xesmith::holdsPointers(Type type) {
  switch (typeKind(type)) {
  case TypeKind::Tensor:
    return bool(opaqueOf(cast<RankedTensorType>(type).getElementType(), "tt"));
  case TypeKind::Pointer:
  case TypeKind::BlockPointer:
  case TypeKind::Descriptor:
    return true;
  default:
    return false;
  }
}

TypeView xesmith::viewType(Type type) {
  TypeView view;
  if (auto tensor = dyn_cast<RankedTensorType>(type)) {
    view.kind = TypeKind::Tensor;
    view.shape.assign(tensor.getShape().begin(), tensor.getShape().end());
    if (auto opaque = dyn_cast<OpaqueType>(tensor.getElementType());
        opaque && opaque.getDialectNamespace() == "tt") {
      view.element = pointee(opaque.getTypeData());
      view.ofPointers = true;
    } else
      view.element = elementText(tensor.getElementType());
    if (Attribute encoding = tensor.getEncoding())
      view.encoding = encodingText(encoding);
    return view;
  }
  auto opaque = dyn_cast<OpaqueType>(type);
  if (!opaque) {
    view.element = elementText(type);
    return view;
  }
  StringRef data = opaque.getTypeData(), dialect = opaque.getDialectNamespace().getValue();
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

bool TypeView::isFloat() const {
  StringRef text = element;
  return !ofPointers && (text.starts_with("f") || text.starts_with("b") || text.starts_with("t"));
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
  return llvm::StringSwitch<bool>(nameOf(op))
      .Cases({"tt.dot", "tt.dot_scaled", "ttng.warp_group_dot", "ttng.tc_gen5_mma"}, true)
      .Default(false);
}

bool xesmith::isLoad(Operation *op) {
  return llvm::StringSwitch<bool>(nameOf(op))
      .Cases({"tt.load", "tt.descriptor_load", "tt.experimental_descriptor_load"}, true)
      .Cases({"ttg.async_copy_global_to_local", "ttng.async_tma_copy_global_to_local"}, true)
      .Default(false);
}

bool xesmith::isStore(Operation *op) {
  return llvm::StringSwitch<bool>(nameOf(op))
      .Cases({"tt.store", "tt.descriptor_store", "tt.experimental_descriptor_store"}, true)
      .Case("ttng.async_tma_copy_local_to_global", true)
      .Default(false);
}

bool xesmith::isPrefetch(Operation *op) {
  return llvm::StringSwitch<bool>(nameOf(op))
      .Cases({"triton_intel_gpu.prefetch", "ttig.prefetch", "ttig.descriptor_prefetch"}, true)
      .Default(false);
}

bool xesmith::isAtomic(Operation *op) { return nameOf(op).contains("atomic"); }

bool xesmith::isReduction(Operation *op) {
  return nameOf(op) == "tt.reduce" || nameOf(op) == "tt.scan";
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
  if (!pointer || !(isLoad(op) || isStore(op) || isPrefetch(op)))
    return {};
  TypeKind kind = typeKind(pointer.getType());
  if (kind == TypeKind::BlockPointer || kind == TypeKind::Descriptor)
    return {};
  // A store's value may itself be a predicate: the mask is what comes after it.
  unsigned first = isStore(op) ? 2 : 1;
  for (unsigned index = first; index < op->getNumOperands(); ++index)
    if (isPredicate(op->getOperand(index)))
      return op->getOperand(index);
  return {};
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

SmallVector<Value> xesmith::pointerSources(Value pointer) {
  if (auto argument = dyn_cast<BlockArgument>(pointer)) {
    // What a loop carries it held before the first iteration.
    Operation *loop = argument.getOwner()->getParentOp();
    unsigned index = argument.getArgNumber();
    Value start;
    if (auto counted = dyn_cast_or_null<scf::ForOp>(loop))
      start = index > 0 ? operand(counted, index + 2) : Value();
    else if (isa_and_nonnull<scf::WhileOp>(loop))
      start = operand(loop, index);
    return start ? SmallVector<Value>{start} : SmallVector<Value>{};
  }
  Operation *op = pointer.getDefiningOp();
  unsigned index = cast<OpResult>(pointer).getResultNumber();
  SmallVector<Value> found;
  auto add = [&](Value value) {
    if (value)
      found.push_back(value);
  };
  if (isa<scf::ForOp>(op))
    add(operand(op, index + 3));
  else if (isa<scf::WhileOp>(op))
    add(operand(op, index));
  else if (isa<scf::IfOp>(op)) {
    for (Region &region : op->getRegions())
      if (!region.empty() && !region.front().empty())
        add(operand(&region.front().back(), index));
  } else {
    bool select = nameOf(op) == "arith.select";
    for (Value value : op->getOperands())
      if ((select || found.empty()) && holdsPointers(value.getType()))
        found.push_back(value);
  }
  return found;
}

Operation *xesmith::blockMaker(Value block) {
  llvm::DenseSet<Value> seen;
  while (block && seen.insert(block).second) {
    Operation *op = block.getDefiningOp();
    if (op && isBlockMaker(op))
      return op;
    SmallVector<Value> sources = pointerSources(block);
    block = sources.size() == 1 ? sources.front() : Value();
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

std::optional<int64_t> xesmith::integerAttribute(Operation *op, StringRef name) {
  if (auto flag = op->getAttrOfType<BoolAttr>(name))
    return flag.getValue();
  auto number = op->getAttrOfType<IntegerAttr>(name);
  if (!number || !number.getValue().isSignedIntN(64))
    return std::nullopt;
  return number.getValue().getSExtValue();
}

SmallVector<int64_t> xesmith::integersAttribute(Operation *op, StringRef name) {
  SmallVector<int64_t> numbers;
  Attribute attribute = op->getAttr(name);
  if (auto dense = dyn_cast_or_null<DenseI32ArrayAttr>(attribute))
    numbers.append(dense.asArrayRef().begin(), dense.asArrayRef().end());
  else if (auto dense = dyn_cast_or_null<DenseI64ArrayAttr>(attribute))
    numbers.append(dense.asArrayRef().begin(), dense.asArrayRef().end());
  else if (auto list = dyn_cast_or_null<ArrayAttr>(attribute))
    for (Attribute item : list)
      if (auto number = dyn_cast<IntegerAttr>(item); number && number.getValue().isSignedIntN(64))
        numbers.push_back(number.getValue().getSExtValue());
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
  BlockArgument found;
  SmallVector<Value> waiting{pointer};
  llvm::DenseSet<Value> seen;
  while (!waiting.empty()) {
    Value current = waiting.pop_back_val();
    if (!seen.insert(current).second)
      continue;
    if (functionArgument(current)) {
      auto argument = cast<BlockArgument>(current);
      if (!holdsPointers(current.getType()) || (found && found != argument))
        return {};
      found = argument;
      continue;
    }
    SmallVector<Value> sources = pointerSources(current);
    if (sources.empty())
      return {};
    llvm::append_range(waiting, sources);
  }
  return found;
}
