//===- Kernel.cpp - One kernel's loops, accesses, dots and amounts --------===//

#include "XeSmith/Kernel.h"
#include "XeSmith/Findings.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringSwitch.h"
#include <numeric>

using namespace mlir;
using namespace mlir::xesmith;

static StringRef nameOfOperation(Operation *op) { return op->getName().getStringRef(); }

//===----------------------------------------------------------------------===//
// Single operations
//===----------------------------------------------------------------------===//

static bool isFloatArithmetic(Operation *op) {
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp, arith::RemFOp,
             arith::NegFOp, arith::MaxNumFOp, arith::MinNumFOp, arith::MaximumFOp,
             arith::MinimumFOp>(op);
}

std::optional<DotShape> xesmith::dotShape(Operation *dot) {
  if (dot->getNumOperands() < 3)
    return std::nullopt;
  TypeView a = viewType(dot->getOperand(0).getType()), b = viewType(dot->getOperand(1).getType());
  if (a.shape.size() < 2 || b.shape.size() < 2)
    return std::nullopt;
  return DotShape{a.shape[a.shape.size() - 2], b.shape.back(), a.shape.back(),
                  a.shape.size() == 3 ? a.shape[0] : 1};
}

int64_t xesmith::flopOf(Operation *op) {
  if (Operation *parent = op->getParentOp(); parent && isReduction(parent))
    return 0; // counted at the reduction
  if (isDot(op)) {
    std::optional<DotShape> shape = dotShape(op);
    int64_t flop = 2;
    if (!shape)
      return 0;
    for (int64_t factor : {shape->m, shape->n, shape->k, shape->batch})
      if (factor < 0 || __builtin_mul_overflow(flop, factor, &flop))
        return 0;
    return flop;
  }
  if (isReduction(op)) {
    int64_t steps = 0;
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Operation &inner : block)
          steps += isFloatArithmetic(&inner);
    int64_t elements =
        op->getNumOperands() ? viewType(op->getOperand(0).getType()).elements() : 0;
    return __builtin_mul_overflow(steps, elements, &steps) ? 0 : steps;
  }
  if (op->getNumResults() == 0)
    return 0;
  if (!isFloatArithmetic(op) && mathName(op).empty())
    return 0;
  TypeView view = viewType(op->getResult(0).getType());
  if (!view.isFloat())
    return 0;
  return view.elements() * (isa<math::FmaOp>(op) ? 2 : 1);
}

int64_t xesmith::bytesOf(Operation *op) {
  Value pointer = operand(op, 0);
  return pointer ? viewType(pointer.getType()).bytes() : 0;
}

std::string xesmith::inputPrecision(Operation *dot) {
  std::optional<int64_t> number = integerAttribute(dot, "inputPrecision");
  static constexpr llvm::StringLiteral names[] = {"tf32", "tf32x3", "ieee", "bf16x3", "bf16x6"};
  if (!number)
    return "none";
  return *number >= 0 && *number < 5 ? names[*number].str() : std::to_string(*number);
}

std::string xesmith::mathName(Operation *op) {
  StringRef name = nameOfOperation(op);
  if (name.consume_front("math.") || name.consume_front("tt.precise_"))
    return name.str();
  if (name != "tt.extern_elementwise")
    return "";
  auto symbol = op->getAttrOfType<StringAttr>("symbol");
  return symbol ? symbol.getValue().str() : "extern";
}

bool xesmith::worksOnF64(Operation *op) {
  StringRef name = nameOfOperation(op);
  bool computes = name.starts_with("arith.") || name.starts_with("math.") ||
                  name.starts_with("tt.dot") || name.starts_with("tt.precise_") ||
                  name.starts_with("tt.extern_");
  if (!computes || isa<arith::ConstantOp>(op) || op->getNumRegions())
    return false;
  auto wide = [](Type type) { return getElementTypeOrSelf(type).isF64(); };
  return llvm::any_of(op->getOperandTypes(), wide) || llvm::any_of(op->getResultTypes(), wide);
}

bool xesmith::worksOnI64(Operation *op) {
  return isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::DivSIOp, arith::DivUIOp,
             arith::RemSIOp, arith::RemUIOp, arith::MinSIOp, arith::MinUIOp, arith::MaxSIOp,
             arith::MaxUIOp, arith::AndIOp, arith::OrIOp, arith::XOrIOp, arith::ShLIOp,
             arith::ShRSIOp, arith::ShRUIOp, arith::CmpIOp, arith::CeilDivSIOp,
             arith::FloorDivSIOp, arith::MulSIExtendedOp, arith::MulUIExtendedOp,
             arith::AddUIExtendedOp>(op) &&
         llvm::any_of(op->getOperandTypes(), [](Type type) {
           return getElementTypeOrSelf(type).isSignlessInteger(64);
         });
}

std::optional<Encoding> xesmith::encodingOf(Value value) {
  return value ? parseEncoding(viewType(value.getType()).encoding) : std::nullopt;
}

std::string xesmith::shortEncoding(const std::optional<Encoding> &encoding) {
  return encoding ? encoding->shortText() : "unknown";
}

std::string xesmith::keptLayout(const std::optional<Encoding> &encoding) {
  return "the compiler kept layout " + shortEncoding(encoding) + "; the IR tells no reason";
}

std::optional<Encoding> xesmith::movedEncoding(Operation *access) {
  if (isLoad(access) && access->getNumResults())
    if (std::optional<Encoding> loaded = encodingOf(access->getResult(0)))
      return loaded;
  if (isStore(access))
    for (Value stored : access->getOperands())
      if (TypeView view = viewType(stored.getType());
          view.kind == TypeKind::Tensor && !view.ofPointers)
        return parseEncoding(view.encoding);
  return encodingOf(operand(access, 0));
}

StringRef xesmith::accessName(Operation *op) {
  return isLoad(op) ? "load" : isStore(op) ? "store" : isPrefetch(op) ? "prefetch" : "";
}

StringRef xesmith::accessKind(Operation *access) {
  switch (typeKind(access->getOperand(0).getType())) {
  case TypeKind::BlockPointer:
    return "block_pointer";
  case TypeKind::Descriptor:
    return "descriptor";
  default:
    return "pointer";
  }
}

bool xesmith::isMasked(Operation *access) {
  StringRef kind = accessKind(access);
  if (kind == "block_pointer")
    return !integersAttribute(access, "boundaryCheck").empty();
  // Descriptors always check their bounds.
  return kind == "descriptor" || maskOf(access);
}

//===----------------------------------------------------------------------===//
// Loops, branches and amounts
//===----------------------------------------------------------------------===//

std::vector<double> xesmith::combineColumns(const std::vector<double> &a,
                                            const std::vector<double> &b,
                                            llvm::function_ref<double(double, double)> together) {
  std::vector<double> made(std::max(a.size(), b.size()));
  for (size_t program = 0; program < made.size(); ++program)
    made[program] = together(a[a.size() == 1 ? 0 : program], b[b.size() == 1 ? 0 : program]);
  return made;
}

static double times(double a, double b) { return a * b; }

static bool anyOf(const std::vector<double> &column) {
  return llvm::any_of(column, [](double one) { return one != 0; });
}

/// The middle of the bounds in each program.
static std::vector<double> middles(const Bounds &range) {
  std::vector<double> made(range.size());
  for (size_t program = 0; program < made.size(); ++program) {
    Interval one = range.at(program);
    made[program] = (double(one.low) + double(one.high)) / 2;
  }
  return made;
}

std::string Amount::text() const {
  std::string products, numbers;
  for (auto &[trips, number] : terms)
    if (trips.empty())
      numbers = std::to_string(number);
    else
      products += (products.empty() ? "" : " + ") + trips + " * " + std::to_string(number);
  return products + (products.empty() || numbers.empty() ? "" : " + ") + numbers;
}

static double mean(const std::vector<double> &column) {
  double sum = 0;
  for (double one : column)
    sum += one;
  return sum / double(column.size());
}

std::optional<double> Amount::mean() const {
  return perProgram ? std::optional(::mean(*perProgram)) : std::nullopt;
}

Kernel::Kernel(Operation *function, Numbers &launch)
    : function(function), module(function->getParentOfType<ModuleOp>()), numbers(launch) {
  if (function->getNumRegions() && !function->getRegion(0).empty())
    for (BlockArgument argument : function->getRegion(0).front().getArguments())
      arguments.push_back(launch.nameOf(argument));
  compiled.call(arguments);
  function->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op == function)
      return;
    operations.push_back(op);
    if (isa<scf::ForOp, scf::WhileOp>(op)) {
      loopIndex[op] = loops.size();
      loops.push_back(op);
    }
  });
}

void xesmith::forEachKernel(ModuleOp module, llvm::function_ref<void(Kernel &)> act) {
  for (Operation &op : *module.getBody())
    if (nameOfOperation(&op) == "tt.func") {
      Numbers numbers;
      Kernel kernel(&op, numbers);
      act(kernel);
    }
}

const TypeView &Kernel::view(Value value) {
  auto [found, isNew] = views.try_emplace(value.getType());
  if (isNew)
    found->second = viewType(value.getType());
  return found->second;
}

std::optional<unsigned> Kernel::loopOf(Operation *op) const {
  Operation *loop = loopAround(op);
  auto found = loop ? loopIndex.find(loop) : loopIndex.end();
  return found == loopIndex.end() ? std::nullopt : std::optional(found->second);
}

const Kernel::Surroundings &Kernel::surroundings(Block *block) {
  if (auto found = kept.find(block); found != kept.end())
    return found->second;
  Surroundings made;
  Operation *around = block->getParentOp();
  if (!around || around == function || !around->getBlock()) {
    made.taken = {1};
    made.times = std::vector<double>{1};
    return kept[block] = std::move(made);
  }
  Surroundings outer = surroundings(around->getBlock());
  made.taken = outer.taken;
  made.times = outer.times;
  if (auto branch = dyn_cast<scf::IfOp>(around))
    if (std::optional<Bounds> condition = numbers.known(branch.getCondition())) {
      bool isElse = block->getParent() == &branch.getElseRegion();
      std::vector<double> taken(condition->size());
      for (size_t program = 0; program < taken.size(); ++program)
        taken[program] = isElse ? 1 - condition->at(program).low : condition->at(program).high;
      made.taken = combineColumns(made.taken, taken, times);
      if (made.times)
        made.times = combineColumns(*made.times, taken, times);
    }
  made.reached = anyOf(made.taken);
  if (isa<scf::ForOp, scf::WhileOp>(around) && made.times) {
    std::optional<Bounds> trips = numbers.tripRange(around);
    if (trips && !trips->ofType)
      made.times = combineColumns(*made.times, middles(*trips), times);
    else
      made.times = std::nullopt;
  }
  // What never runs counts nothing, however often that would be.
  if (!made.reached)
    made.times = std::vector<double>{0};
  return kept[block] = std::move(made);
}

bool Kernel::reached(Operation *op) { return surroundings(op->getBlock()).reached; }

std::optional<std::vector<double>> Kernel::timesAround(Operation *op) {
  return surroundings(op->getBlock()).times;
}

std::optional<std::vector<double>> Kernel::iterations(Operation *loop) {
  std::optional<std::vector<double>> around = timesAround(loop);
  if (!around || !anyOf(*around))
    return around;
  std::optional<Bounds> trips = numbers.tripRange(loop);
  if (!trips || trips->ofType)
    return std::nullopt;
  return combineColumns(*around, middles(*trips), times);
}

std::string Kernel::tripTextAround(Operation *op) {
  std::string text;
  for (std::optional<unsigned> index = loopOf(op); index; index = loopOf(loops[*index])) {
    std::string one = numbers.tripText(loops[*index]);
    if (one.empty())
      one = "trips" + std::to_string(*index);
    StringRef rest = StringRef(one).drop_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (!rest.empty() &&
        (!rest.starts_with("(") || !rest.ends_with(")") || rest.size() == one.size()))
      one = "(" + one + ")";
    text = one + (text.empty() ? "" : " * ") + text;
  }
  return text;
}

void Kernel::add(Amount &amount, Operation *op, int64_t once) {
  if (reached(op)) {
    int64_t &sum = amount.terms[tripTextAround(op)];
    if (__builtin_add_overflow(sum, once, &sum))
      sum = std::numeric_limits<int64_t>::max();
  }
  std::optional<std::vector<double>> around = timesAround(op);
  if (!around)
    amount.perProgram = std::nullopt;
  else if (amount.perProgram)
    amount.perProgram = combineColumns(*amount.perProgram, *around, [&](double sum, double more) {
      return sum + double(once) * more;
    });
}

Amount Kernel::flop() {
  Amount made;
  for (Operation *op : operations)
    if (int64_t once = flopOf(op))
      add(made, op, once);
  return made;
}

// An atomic reads and writes what it changes.

Amount Kernel::bytesLoaded() {
  Amount made;
  for (Operation *op : operations)
    if (isLoad(op) || isAtomic(op))
      add(made, op, bytesOf(op));
  return made;
}

Amount Kernel::bytesStored() {
  Amount made;
  for (Operation *op : operations)
    if (isStore(op) || isAtomic(op))
      add(made, op, bytesOf(op));
  return made;
}

Amount Kernel::bytesMoved() {
  Amount made;
  for (Operation *op : operations)
    if (isLoad(op) || isStore(op) || isAtomic(op))
      add(made, op, bytesOf(op) * (isAtomic(op) ? 2 : 1));
  return made;
}

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

static std::optional<Bounds> nothing() { return Bounds(Interval{0, 0}); }

std::optional<Bounds> Kernel::plus(const std::optional<Bounds> &a, const std::optional<Bounds> &b) {
  return numbers.sum(a, b);
}

BlockOrigin Kernel::blockOf(Value pointer) {
  size_t rank = view(pointer).shape.size();
  BlockOrigin found;
  SmallVector<std::optional<Bounds>> moved(rank, nothing());
  llvm::DenseSet<Value> seen;
  for (Value current = pointer; current && seen.insert(current).second;) {
    Operation *op = current.getDefiningOp();
    if (op && isBlockMaker(op)) {
      found.maker = op;
      found.offsets.assign(rank, std::nullopt);
      if (nameOfOperation(op) == "tt.make_tensor_ptr" && op->getNumOperands() == 1 + 3 * rank)
        for (size_t dimension = 0; dimension < rank; ++dimension)
          found.offsets[dimension] =
              plus(numbers.known(op->getOperand(1 + 2 * rank + dimension)), moved[dimension]);
      return found;
    }
    if (op && nameOfOperation(op) == "tt.advance" && op->getNumOperands() == 1 + rank) {
      for (size_t dimension = 0; dimension < rank; ++dimension)
        moved[dimension] = plus(moved[dimension], numbers.known(op->getOperand(1 + dimension)));
      current = op->getOperand(0);
      continue;
    }
    if (!op)
      moveByLoop(current, moved);
    else if (nameOfOperation(op) != "ttg.convert_layout" &&
             nameOfOperation(op) != "builtin.unrealized_conversion_cast")
      moved.assign(rank, std::nullopt); // how far it has moved by then is not followed
    SmallVector<Value> sources = pointerSources(current);
    current = sources.size() == 1 ? sources.front() : Value();
  }
  found.offsets.assign(rank, std::nullopt);
  return found;
}

/// Adds what all earlier iterations advanced a loop-carried block pointer by.
void Kernel::moveByLoop(Value carried, SmallVectorImpl<std::optional<Bounds>> &moved) {
  size_t rank = moved.size();
  SmallVector<std::optional<Bounds>> start(moved.begin(), moved.end());
  moved.assign(rank, std::nullopt);
  auto argument = cast<BlockArgument>(carried);
  auto loop = dyn_cast_or_null<scf::ForOp>(argument.getOwner()->getParentOp());
  if (!loop || argument.getArgNumber() == 0)
    return;
  std::optional<Bounds> trips = numbers.tripRange(loop);
  if (!trips || trips->ofType)
    return;
  SmallVector<std::optional<Bounds>> steps(rank, nothing());
  Value current = operand(loop.getBody()->getTerminator(), argument.getArgNumber() - 1);
  while (current != carried) {
    Operation *op = current ? current.getDefiningOp() : nullptr;
    if (!op || nameOfOperation(op) != "tt.advance" || op->getNumOperands() != 1 + rank)
      return;
    for (size_t dimension = 0; dimension < rank; ++dimension)
      steps[dimension] = plus(steps[dimension], numbers.known(op->getOperand(1 + dimension)));
    current = op->getOperand(0);
  }
  for (size_t dimension = 0; dimension < rank; ++dimension)
    moved[dimension] = plus(start[dimension], numbers.upTo(*trips, steps[dimension]));
}

std::optional<int64_t> Kernel::baseAlignment(Value base, int64_t argumentBytes) {
  int64_t divisor = 0;
  SmallVector<Bounds> offsets;
  Value current = base;
  while (Operation *op = current.getDefiningOp()) {
    if (nameOfOperation(op) != "tt.addptr" || op->getNumOperands() != 2)
      return std::nullopt;
    std::optional<Bounds> offset = numbers.known(op->getOperand(1));
    int64_t bytes = view(current).elementBits() / 8;
    std::optional<Bounds> scaled = numbers.scaled(offset, bytes);
    if (!scaled || !scaled->exact())
      return std::nullopt;
    offsets.push_back(*scaled);
    current = op->getOperand(0);
  }
  if (!functionArgument(current))
    return std::nullopt;
  std::optional<Bounds> whole = nothing();
  for (const Bounds &offset : offsets)
    whole = plus(whole, offset);
  if (!whole)
    return std::nullopt;
  for (size_t program = 0; program < whole->size(); ++program)
    divisor = std::gcd(divisor, whole->at(program).low);
  return divisor == 0 ? argumentBytes : std::min(argumentBytes, divisor & -divisor);
}

std::optional<bool> Kernel::maskAlwaysTrue(Operation *access) {
  StringRef kind = accessKind(access);
  if (kind == "descriptor" || !isMasked(access))
    return std::nullopt;
  if (kind == "pointer") {
    Value mask = maskOf(access);
    if (numbers.alwaysTrue(mask))
      return true;
    std::optional<Bounds> found = numbers.known(mask);
    bool never = found && found->any([](Interval one) { return one.high == 0; });
    return never ? std::optional(false) : std::nullopt;
  }
  BlockOrigin block = blockOf(access->getOperand(0));
  if (!block.maker)
    return std::nullopt;
  ValueRange sizes = makerSizes(block.maker);
  ArrayRef<int64_t> shape = view(access->getOperand(0)).shape;
  for (int64_t dimension : integersAttribute(access, "boundaryCheck")) {
    if (dimension < 0 || dimension >= int64_t(sizes.size()) ||
        dimension >= int64_t(block.offsets.size()))
      return std::nullopt;
    std::optional<Bounds> offset = block.offsets[dimension];
    std::optional<Bounds> size = numbers.known(sizes[dimension]);
    if (!offset || !size || offset->hull().low < 0)
      return std::nullopt;
    std::optional<Bounds> end = plus(offset, Bounds(Interval{shape[dimension], shape[dimension]}));
    if (!end || !numbers.neverAbove(*end, *size))
      return std::nullopt;
  }
  return true;
}

std::optional<int64_t> Kernel::contiguity(Operation *access) {
  constexpr int64_t mostElements = 1 << 20;
  Value pointer = operand(access, 0);
  std::optional<Encoding> encoding = movedEncoding(access);
  if (!pointer || !encoding || view(pointer).kind != TypeKind::Tensor)
    return std::nullopt;
  unsigned rank = view(pointer).shape.size();
  std::optional<int64_t> vector = contiguousPerThread(*encoding, rank);
  if (!vector || *vector < 1 || *vector > mostElements)
    return std::nullopt;
  Slope slope = numbers.slope(pointer, dimensionOrder(*encoding, rank)[0]);
  if (slope.kind == Slope::Unknown)
    return std::nullopt;
  return slope.isOne() ? *vector : 1;
}

std::optional<int64_t> Kernel::bytesPerAccess(Operation *access) {
  constexpr int64_t widestBytes = 16; // of one lane: four dwords
  std::optional<int64_t> elements = contiguity(access);
  if (!elements)
    return std::nullopt;
  int64_t elementBytes = std::max(view(access->getOperand(0)).elementBits() / 8, 1u);
  return std::min(*elements * elementBytes, widestBytes);
}

bool Kernel::feedsAddress(Operation *op) {
  if (!feeding) {
    feeding.emplace();
    SmallVector<Value> waiting;
    for (Operation *user : operations)
      if (nameOfOperation(user) == "tt.addptr" || nameOfOperation(user) == "tt.advance" ||
          isBlockMaker(user))
        llvm::append_range(waiting, llvm::drop_begin(user->getOperands(),
                                                     user->getNumOperands() ? 1 : 0));
    while (!waiting.empty()) {
      Value value = waiting.pop_back_val();
      if (view(value).isFloat() || !feeding->insert(value).second)
        continue;
      if (Operation *maker = value.getDefiningOp(); maker && maker->getNumRegions() == 0)
        llvm::append_range(waiting, maker->getOperands());
    }
  }
  return llvm::any_of(op->getResults(), [&](Value value) { return feeding->contains(value); });
}

std::optional<Encoding> Kernel::convertedTo(Operation *conversion) {
  if (nameOfOperation(conversion) == "ttg.convert_layout")
    return encodingOf(conversion->getResult(0));
  // Staged memory: the layout in which it is first read back.
  for (Operation *op : operations)
    if (nameOfOperation(op) == "ttg.local_load" && op->getNumResults() == 1 &&
        operand(op, 0) == conversion->getResult(0))
      return encodingOf(op->getResult(0));
  return std::nullopt;
}

std::optional<int64_t> Kernel::conversionBytes(Operation *conversion) {
  const TypeView &moved = view(conversion->getOperand(0));
  if (nameOfOperation(conversion) == "ttg.local_alloc")
    return moved.bytes();
  std::optional<Encoding> source = parseEncoding(moved.encoding);
  std::optional<Encoding> destination = convertedTo(conversion);
  if (!source || !destination)
    return std::nullopt;
  return conversionSlmBytes(*source, *destination, moved.shape,
                            moved.ofPointers ? 64 : moved.elementBits());
}

//===----------------------------------------------------------------------===//
// Reasons
//===----------------------------------------------------------------------===//

// Of the 2D block messages (the backend's verifier holds them to the same).
constexpr int64_t pitchMultipleBytes = 16;
constexpr int64_t leastPitchBytes = 64;
constexpr int64_t leastWidthBytes = 64;
constexpr int64_t mostWidthBytes = int64_t(1) << 24;
constexpr int64_t baseAlignmentBytes = 64;

static std::string bytesText(int64_t bytes) { return std::to_string(bytes) + " B"; }

std::optional<Obstacle> Kernel::messageObstacle(Operation *access) {
  const TypeView block = view(access->getOperand(0));
  unsigned bits = block.elementBits();
  if (block.shape.size() < 2)
    return Obstacle{block.shape.empty() ? "it moves one element; a 2D block needs two dimensions"
                                        : "it moves one dimension; a 2D block needs two dimensions",
                    ""};
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
    return Obstacle{"2D blocks hold elements of 8, 16, 32 or 64 bits, not " + block.element, ""};
  if (block.kind == TypeKind::Tensor)
    return pointerObstacle(access);
  if (std::optional<Obstacle> found = surfaceObstacle(access))
    return found;
  return rankObstacle(access);
}

std::optional<Obstacle> Kernel::rankObstacle(Operation *access) {
  size_t rank = view(access->getOperand(0)).shape.size();
  if (rank <= 2)
    return std::nullopt;
  return Obstacle{"the block has " + std::to_string(rank) +
                      " dimensions; several compiler versions fall back there",
                  "make a block of two dimensions per batch, with the batch in its base"};
}

std::string Kernel::strideText(const Slope &slope) {
  switch (slope.kind) {
  case Slope::Constant:
    return std::to_string(slope.constant);
  case Slope::Symbolic:
    return "`" + slope.symbol + "`";
  default:
    return "that is no expression of the arguments";
  }
}

/// "the argument `n`", "the expression `n * 2`".
std::string Kernel::called(const std::string &text) {
  return (llvm::is_contained(arguments, text) ? "the argument `" : "the expression `") + text + "`";
}

/// What keeps a tensor of pointers from being one rectangle in memory, most telling first.
Obstacle Kernel::pointerObstacle(Operation *access) {
  Value pointer = access->getOperand(0);
  unsigned rank = view(pointer).shape.size();
  SmallVector<Slope> slopes;
  for (unsigned dimension = 0; dimension < rank; ++dimension)
    slopes.push_back(numbers.slope(pointer, dimension));
  std::string why = "tensor of pointers";
  const Slope &last = slopes[rank - 1], &row = slopes[rank - 2];
  bool followed =
      llvm::all_of(slopes, [](const Slope &one) { return one.kind != Slope::Unknown; });
  if (!followed)
    why += " whose addresses are not a plain sum of row and column";
  else if (last.isOne() || row.isOne())
    why += (last.isOne() ? " with row stride " + strideText(row)
                         : " that lies transposed in memory, with column stride " +
                               strideText(last)) +
           "; nothing states width and pitch, as a block pointer would";
  else
    why += ": stride of the last dimension is " +
           (last.kind == Slope::Symbolic ? called(last.symbol) : strideText(last)) +
           ", not known to be 1";
  for (auto [dimension, slope] : llvm::enumerate(slopes))
    if (followed && !slope.modulo.empty())
      why += "; the offset along dimension " + std::to_string(dimension) + " is taken modulo `" +
             slope.modulo + "`";
  if (isMasked(access))
    why += "; it is masked";
  if (rank > 2)
    why += "; the tensor has " + std::to_string(rank) + " dimensions";
  return {why, "tl.make_block_ptr or tl.make_tensor_descriptor with shape, strides and the last "
               "stride a constant 1; boundary checks take the mask's place"};
}

/// Sizes, strides and base, by what is known when the kernel is compiled.
std::optional<Obstacle> Kernel::surfaceObstacle(Operation *access) {
  Operation *maker = blockMaker(access->getOperand(0));
  if (!maker)
    return std::nullopt; // a descriptor from the host: its maker has seen to it
  ValueRange sizes = makerSizes(maker), strides = makerStrides(maker);
  unsigned rank = strides.size();
  if (rank < 2)
    return std::nullopt;
  const TypeView block = view(access->getOperand(0));
  int64_t elementBytes = block.elementBits() / 8;
  unsigned fast = rank - 1;
  if (compiled.constant(strides[fast]) != 1 && compiled.constant(strides[--fast]) != 1) {
    std::string stride = compiled.text(strides[rank - 1]);
    bool constant = compiled.constant(strides[rank - 1]).has_value();
    return Obstacle{"stride of the last dimension is " +
                        (stride.empty() ? "not an expression of the arguments"
                         : constant     ? "`" + stride + "`"
                                        : called(stride)) +
                        ", not known to be 1",
                    "give the stride as the constant 1, or leave the argument to Triton's "
                    "specialisation on 1"};
  }
  if (fast != rank - 1 && block.elementBits() == 8)
    return Obstacle{"it lies transposed in memory; blocks of 8-bit elements cannot be transposed",
                    "keep a transposed copy of this operand"};
  Value pitch = strides[2 * rank - 3 - fast], width = sizes[fast];
  if (std::optional<int64_t> stride = compiled.constant(pitch)) {
    int64_t bytes;
    if (__builtin_mul_overflow(*stride, elementBytes, &bytes) || bytes % pitchMultipleBytes)
      return Obstacle{"the pitch is " + std::to_string(*stride) + " elements of " +
                          bytesText(elementBytes) + ", not a multiple of " +
                          bytesText(pitchMultipleBytes),
                      "pad the rows to a multiple of 16 B"};
    if (bytes < leastPitchBytes)
      return Obstacle{
          "the pitch is " + bytesText(bytes) + "; the least is " + bytesText(leastPitchBytes), ""};
  } else if (compiled.divisor(pitch) % (pitchMultipleBytes /
                                        std::gcd(pitchMultipleBytes, elementBytes))) {
    std::string text = compiled.text(pitch);
    return Obstacle{"the pitch is " + (text.empty() ? std::string("a value") : called(text)) +
                        " times " + bytesText(elementBytes) + ", not known to be a multiple of " +
                        bytesText(pitchMultipleBytes),
                    isStore(access)
                        ? "pass a stride that 16 divides; some versions write 2D blocks here "
                          "without this proof, which a card may refuse"
                        : "pass a stride that 16 divides, so that Triton specialises on it"};
  }
  if (std::optional<int64_t> size = compiled.constant(width)) {
    int64_t bytes;
    if (__builtin_mul_overflow(*size, elementBytes, &bytes) || bytes < leastWidthBytes ||
        bytes > mostWidthBytes)
      return Obstacle{"the surface is " + std::to_string(*size) + " elements of " +
                          bytesText(elementBytes) + " wide; a 2D block needs " +
                          bytesText(leastWidthBytes) + " to 2^24 B",
                      ""};
  }
  // The start of a tensor is aligned at run time; what is added to it is known here.
  Value base = operand(maker, 0);
  Operation *moved = base && !functionArgument(base) ? base.getDefiningOp() : nullptr;
  if (moved && nameOfOperation(moved) == "tt.addptr" && operand(moved, 1) &&
      functionArgument(operand(moved, 0)))
    if (std::optional<int64_t> offset = compiled.constant(operand(moved, 1));
        offset && *offset % (baseAlignmentBytes / std::gcd(baseAlignmentBytes, elementBytes)))
      return Obstacle{"the base stands " + std::to_string(*offset) + " elements of " +
                          bytesText(elementBytes) + " into the tensor, not at a multiple of " +
                          bytesText(baseAlignmentBytes),
                      "move the block by its offsets and leave its base at the tensor's start"};
  return std::nullopt;
}

std::optional<Obstacle> Kernel::layoutObstacle(Operation *access) {
  std::optional<Encoding> encoding = movedEncoding(access);
  if (!encoding || encoding->isDpas() || (encoding->isDpasOperand() && !isStore(access)))
    return std::nullopt;
  return Obstacle{"its layout is " + encoding->shortText() +
                      ", neither an operand nor a result of DPAS: several compiler versions make "
                      "2D blocks for those only",
                  "use the loaded tile as an operand of tl.dot as it is"};
}

/// By the types and sizes of this dot alone.
static std::optional<Obstacle> dotObstacle(Operation *dot) {
  std::optional<DotShape> shape = dotShape(dot);
  if (!shape)
    return std::nullopt;
  std::string a = viewType(dot->getOperand(0).getType()).element;
  std::string b = viewType(dot->getOperand(1).getType()).element;
  std::string acc = viewType(dot->getOperand(2).getType()).element;
  bool float8 = StringRef(a).starts_with("f8");
  if (a != b && !(float8 && StringRef(b).starts_with("f8")))
    return Obstacle{"its operands have different element types, " + a + " and " + b,
                    "convert both to one 16-bit type"};
  if (a == "f64")
    return Obstacle{"DPAS has no float64", "convert the operands to float32 or less"};
  if (a == "f32" && inputPrecision(dot) != "tf32")
    return Obstacle{"float32 operands with input_precision '" + inputPrecision(dot) +
                        "': DPAS takes float32 only as tf32",
                    "input_precision='tf32' where the tolerance allows it"};
  if ((a == "f16" || a == "bf16") && acc != "f32" && acc != a)
    return Obstacle{"DPAS has no " + acc + " accumulator for " + a + " operands",
                    "accumulate in float32"};
  int64_t depth = llvm::StringSwitch<int64_t>(a)
                      .Case("f32", 8)
                      .Cases({"f16", "bf16"}, 16)
                      .Case("i8", 32)
                      .Default(float8 ? 32 : 0);
  if (!depth)
    return Obstacle{"DPAS has no " + a + " operands", ""};
  if (shape->k < depth)
    return Obstacle{"its K is " + std::to_string(shape->k) + "; one DPAS of " + a + " takes " +
                        std::to_string(depth),
                    "a larger tile along K"};
  if (shape->n < 16)
    return Obstacle{"its N is " + std::to_string(shape->n) + "; one DPAS makes 16 columns",
                    "a larger tile along N, or swap the operands"};
  return std::nullopt;
}

std::optional<Obstacle> Kernel::dpasObstacle(Operation *dot) {
  if (std::optional<Obstacle> found = dotObstacle(dot))
    return found;
  for (Operation *other : operations) {
    std::optional<Obstacle> found = isDot(other) ? dotObstacle(other) : std::nullopt;
    if (!found)
      continue;
    FileLineColLoc at = kernelLocation(other->getLoc());
    return Obstacle{"every dot of a kernel must qualify, and the one" +
                        (at && at.getLine() ? " in line " + std::to_string(at.getLine()) : "") +
                        " does not: " + found->why,
                    "mend that dot, or take it into a kernel of its own"};
  }
  return std::nullopt;
}
