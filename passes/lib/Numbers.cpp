//===- Numbers.cpp - What can be proven of integers -----------------------===//

#include "XeSmith/Numbers.h"
#include "XeSmith/TritonIR.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include <algorithm>
#include <limits>
#include <numeric>

using namespace mlir;
using namespace mlir::xesmith;

/// Of per-program bounds in one function: 256 MiB.
static constexpr size_t mostEntries = size_t(1) << 24;
/// Nobody reads an expression longer than this.
static constexpr size_t longestText = 1000;

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

Bounds::Bounds(std::vector<int64_t> low, std::vector<int64_t> high) {
  bool same = low == high;
  this->low = column(std::move(low));
  this->high = same ? this->low : column(std::move(high));
}

bool Bounds::exact() const { return low == high || *low == *high; }

Interval Bounds::hull() const {
  return {*std::min_element(low->begin(), low->end()),
          *std::max_element(high->begin(), high->end())};
}

std::optional<int64_t> Bounds::constant() const {
  Interval whole = hull();
  return whole.low == whole.high ? std::optional(whole.low) : std::nullopt;
}

double Bounds::mean() const {
  double sum = 0;
  for (size_t program = 0; program < size(); ++program)
    sum += (double(at(program).low) + double(at(program).high)) / 2;
  return sum / double(size());
}

bool Bounds::any(llvm::function_ref<bool(Interval)> holds) const {
  for (size_t program = 0; program < size(); ++program)
    if (holds(at(program)))
      return true;
  return false;
}

Numbers::Numbers(ArrayRef<int64_t> grid)
    : grid(grid.begin(), grid.end()), entriesLeft(mostEntries) {}

void Numbers::lookAtLastProgram() {
  lastProgram = true;
  keptRanges.clear();
}

std::string Numbers::nameOf(BlockArgument argument) const {
  unsigned index = argument.getArgNumber();
  return index < names.size() ? names[index] : argumentName(argument);
}

std::optional<int64_t> Numbers::programs() const {
  int64_t product = 1;
  for (int64_t extent : grid)
    if (extent < 1 || __builtin_mul_overflow(product, extent, &product))
      return std::nullopt;
  return grid.empty() ? std::nullopt : std::optional(product);
}

/// An operator on intervals, in each program; nullopt where it gives nothing for one of them.
std::optional<Bounds> Numbers::combined(const Bounds &a, const Bounds &b, IntervalOperator together) {
  size_t count = std::max(a.size(), b.size());
  bool single = count > 1 && count > entriesLeft;
  if (single)
    count = 1; // what holds for the hulls holds for each program
  std::vector<int64_t> low(count), high(count);
  for (size_t program = 0; program < count; ++program) {
    std::optional<Interval> made = single ? together(a.hull(), b.hull())
                                          : together(a.at(program), b.at(program));
    if (!made)
      return std::nullopt;
    low[program] = made->low;
    high[program] = made->high;
  }
  if (count > 1)
    entriesLeft -= count;
  Bounds made(std::move(low), std::move(high));
  made.ofType = a.ofType || b.ofType;
  return made;
}

std::optional<Bounds> Numbers::united(std::optional<Bounds> a, std::optional<Bounds> b) {
  if (!a || !b)
    return std::nullopt;
  return combined(*a, *b, [](Interval x, Interval y) {
    return std::optional(Interval{std::min(x.low, y.low), std::max(x.high, y.high)});
  });
}

std::optional<Bounds> Numbers::programId(std::optional<int64_t> axis) {
  int64_t most = std::numeric_limits<int32_t>::max();
  int64_t extent = axis && *axis >= 0 && *axis < int64_t(grid.size()) ? grid[*axis] : 0;
  if (extent < 1) {
    Bounds any(Interval{0, most});
    any.ofType = true;
    return any;
  }
  if (lastProgram)
    return Bounds(Interval{extent - 1, extent - 1});
  std::optional<int64_t> count = programs();
  if (!count || *count > mostPrograms)
    return Bounds(Interval{0, extent - 1});
  int64_t before = 1;
  for (int64_t other = 0; other < *axis; ++other)
    before *= grid[other];
  std::vector<int64_t> ids(*count);
  for (int64_t program = 0; program < *count; ++program)
    ids[program] = program / before % extent;
  return Bounds(ids, ids);
}

/// Bits of an integer or of a tensor's integers; 0 for anything else.
static unsigned integerBits(Type type) {
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    type = tensor.getElementType();
  if (type.isIndex())
    return 64;
  auto integer = dyn_cast<IntegerType>(type);
  return integer && integer.getWidth() <= 64 ? integer.getWidth() : 0;
}

static Interval typeRange(unsigned bits) {
  if (bits == 1)
    return {0, 1};
  if (bits >= 64)
    return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  return {-(int64_t(1) << (bits - 1)), (int64_t(1) << (bits - 1)) - 1};
}

/// The one number of a constant, or of every element of a constant tensor. i1 gives 0 or 1.
static std::optional<int64_t> constantOf(Operation *op) {
  auto constant = dyn_cast_or_null<arith::ConstantOp>(op);
  if (!constant)
    return std::nullopt;
  Attribute attribute = constant.getValue();
  if (auto dense = dyn_cast<DenseIntElementsAttr>(attribute)) {
    if (!dense.isSplat())
      return std::nullopt;
    APInt number = dense.getSplatValue<APInt>();
    return number.getBitWidth() == 1 ? int64_t(number.getZExtValue()) : number.getSExtValue();
  }
  auto number = dyn_cast<IntegerAttr>(attribute);
  if (!number || number.getValue().getBitWidth() > 64)
    return std::nullopt;
  return number.getType().isInteger(1) ? int64_t(number.getValue().getZExtValue())
                                       : number.getValue().getSExtValue();
}

std::optional<int64_t> Numbers::constant(Value value) {
  std::optional<Bounds> found = ranges(value);
  return found ? found->constant() : std::nullopt;
}

std::optional<Interval> Numbers::range(Value value) {
  std::optional<Bounds> found = ranges(value);
  return found ? std::optional(found->hull()) : std::nullopt;
}

std::optional<Bounds> Numbers::known(Value value) {
  std::optional<Bounds> found = ranges(value);
  return found && !found->ofType ? found : std::nullopt;
}

std::optional<Bounds> Numbers::rangeAt(Value value, unsigned depth) {
  unsigned bits = integerBits(value.getType());
  if (!bits)
    return std::nullopt;
  // Whatever is computed, a value of a narrow type stays in it.
  std::optional<Bounds> fallback;
  if (bits <= 32) {
    fallback = Bounds(typeRange(bits));
    fallback->ofType = true;
  }
  if (auto kept = keptRanges.find(value); kept != keptRanges.end())
    return kept->second;
  if (depth >= maxDepth)
    return fallback;
  keptRanges[value] = fallback; // cuts cycles
  std::optional<Bounds> computed = computeRange(value, depth);
  Interval all = typeRange(bits);
  if (!computed || computed->any([&](Interval one) {
        return one.low < all.low || one.high > all.high || one.low > one.high;
      }))
    computed = fallback;
  return keptRanges[value] = computed;
}

static std::optional<Interval> product(Interval a, Interval b) {
  int64_t ends[4];
  if (__builtin_mul_overflow(a.low, b.low, &ends[0]) ||
      __builtin_mul_overflow(a.low, b.high, &ends[1]) ||
      __builtin_mul_overflow(a.high, b.low, &ends[2]) ||
      __builtin_mul_overflow(a.high, b.high, &ends[3]))
    return std::nullopt;
  return Interval{*std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4)};
}

static std::optional<Interval> added(Interval a, Interval b) {
  Interval made;
  if (__builtin_add_overflow(a.low, b.low, &made.low) ||
      __builtin_add_overflow(a.high, b.high, &made.high))
    return std::nullopt;
  return made;
}

static std::optional<Interval> difference(Interval a, Interval b) {
  Interval made;
  if (__builtin_sub_overflow(a.low, b.high, &made.low) ||
      __builtin_sub_overflow(a.high, b.low, &made.high))
    return std::nullopt;
  return made;
}

/// Rounds toward zero; by positive numbers only.
static std::optional<Interval> quotient(Interval a, Interval b) {
  if (b.low < 1)
    return std::nullopt;
  int64_t ends[4] = {a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high};
  return Interval{*std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4)};
}

static std::optional<Interval> leftOver(Interval a, Interval b) {
  if (b.low < 1)
    return std::nullopt;
  if (a.low < 0)
    return Interval{-(b.high - 1), b.high - 1};
  if (a.low == a.high && b.low == b.high)
    return Interval{a.low % b.low, a.low % b.low};
  if (a.high < b.low)
    return a;
  return Interval{0, std::min(a.high, b.high - 1)};
}

static bool isTruth(Interval a) { return a.low >= 0 && a.high <= 1; }

static std::optional<Interval> conjunction(Interval a, Interval b) {
  if (a.low == a.high && b.low == b.high)
    return Interval{a.low & b.low, a.low & b.low};
  if (a.low < 0 && b.low < 0)
    return std::nullopt;
  int64_t most = a.low < 0 ? b.high : b.low < 0 ? a.high : std::min(a.high, b.high);
  return Interval{isTruth(a) && isTruth(b) ? std::min(a.low, b.low) : 0, most};
}

static std::optional<Interval> disjunction(Interval a, Interval b) {
  if (!isTruth(a) || !isTruth(b))
    return std::nullopt;
  return Interval{std::max(a.low, b.low), std::max(a.high, b.high)};
}

static std::optional<Interval> least(Interval a, Interval b) {
  return Interval{std::min(a.low, b.low), std::min(a.high, b.high)};
}

static std::optional<Interval> most(Interval a, Interval b) {
  return Interval{std::max(a.low, b.low), std::max(a.high, b.high)};
}

static std::optional<Interval> shiftedLeft(Interval a, Interval b) {
  if (b.low != b.high || b.low < 0 || b.low > 61)
    return std::nullopt;
  return product(a, {int64_t(1) << b.low, int64_t(1) << b.low});
}

static std::optional<Interval> shiftedRight(Interval a, Interval b) {
  if (b.low != b.high || b.low < 0 || b.low > 62)
    return std::nullopt;
  return Interval{a.low >> b.low, a.high >> b.low};
}

// Predicates are 0 or 1: low 1 means always true, high 0 never.

static std::optional<Interval> below(Interval a, Interval b) {
  return Interval{a.high < b.low, a.low < b.high};
}

static std::optional<Interval> atMost(Interval a, Interval b) {
  return Interval{a.high <= b.low, a.low <= b.high};
}

static std::optional<Interval> same(Interval a, Interval b) {
  return Interval{a.low == a.high && b.low == b.high && a.low == b.low,
                  !(a.high < b.low || b.high < a.low)};
}

static std::optional<Interval> unequal(Interval a, Interval b) {
  Interval whole = *same(a, b);
  return Interval{1 - whole.high, 1 - whole.low};
}

using Together = std::optional<Interval> (*)(Interval, Interval);

template <Together together>
static std::optional<Interval> swapped(Interval a, Interval b) {
  return together(b, a);
}

/// Unsigned operations are as signed ones where nothing is negative.
template <Together together>
static std::optional<Interval> natural(Interval a, Interval b) {
  return a.low >= 0 && b.low >= 0 ? together(a, b) : std::nullopt;
}

static Together comparison(arith::CmpIPredicate predicate) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return same;
  case arith::CmpIPredicate::ne:
    return unequal;
  case arith::CmpIPredicate::slt:
    return below;
  case arith::CmpIPredicate::sle:
    return atMost;
  case arith::CmpIPredicate::sgt:
    return swapped<below>;
  case arith::CmpIPredicate::sge:
    return swapped<atMost>;
  case arith::CmpIPredicate::ult:
    return natural<below>;
  case arith::CmpIPredicate::ule:
    return natural<atMost>;
  case arith::CmpIPredicate::ugt:
    return natural<swapped<below>>;
  case arith::CmpIPredicate::uge:
    return natural<swapped<atMost>>;
  }
  return nullptr;
}

/// What an operation on two integers makes of their bounds; null where that is not followed.
static Together operatorOf(Operation *op) {
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return comparison(compare.getPredicate());
  return llvm::TypeSwitch<Operation *, Together>(op)
      .Case([](arith::AddIOp) { return added; })
      .Case([](arith::SubIOp) { return difference; })
      .Case([](arith::MulIOp) { return product; })
      .Case([](arith::DivSIOp) { return quotient; })
      .Case([](arith::DivUIOp) { return natural<quotient>; })
      .Case([](arith::RemSIOp) { return leftOver; })
      .Case([](arith::RemUIOp) { return natural<leftOver>; })
      .Case([](arith::MinSIOp) { return least; })
      .Case([](arith::MinUIOp) { return natural<least>; })
      .Case([](arith::MaxSIOp) { return most; })
      .Case([](arith::MaxUIOp) { return natural<most>; })
      .Case([](arith::AndIOp) { return conjunction; })
      .Case([](arith::OrIOp) { return disjunction; })
      .Case([](arith::ShLIOp) { return shiftedLeft; })
      .Case([](arith::ShRSIOp) { return shiftedRight; })
      .Default(Together(nullptr));
}

std::optional<Bounds> Numbers::computeRange(Value value, unsigned depth) {
  if (auto known = assumed.find(value); known != assumed.end())
    return Bounds(Interval{known->second, known->second});
  if (auto argument = dyn_cast<BlockArgument>(value))
    return ofBlockArgument(argument, depth);
  Operation *op = value.getDefiningOp();
  if (std::optional<int64_t> number = constantOf(op))
    return Bounds(Interval{*number, *number});
  if (Value inner = throughShape(op))
    return rangeAt(inner, depth + 1);
  StringRef name = op->getName().getStringRef();
  if (name == "tt.unsplat" && op->getNumOperands() == 1)
    return rangeAt(op->getOperand(0), depth + 1);
  if (name == "tt.make_range") {
    std::optional<int64_t> start = integerAttribute(op, "start"), end = integerAttribute(op, "end");
    if (start && end && *start < *end)
      return Bounds(Interval{*start, *end - 1});
    return std::nullopt;
  }
  if (name == "tt.get_program_id")
    return programId(integerAttribute(op, "axis"));
  if (name == "tt.get_num_programs") {
    std::optional<int64_t> axis = integerAttribute(op, "axis");
    int64_t extent = axis && *axis >= 0 && *axis < int64_t(grid.size()) ? grid[*axis] : 0;
    if (extent > 0)
      return Bounds(Interval{extent, extent});
    Bounds any(Interval{1, std::numeric_limits<int32_t>::max()});
    any.ofType = true;
    return any;
  }
  if (isa<arith::ExtSIOp>(op) && integerBits(op->getOperand(0).getType()) == 1) {
    std::optional<Bounds> truth = rangeAt(op->getOperand(0), depth + 1); // true becomes -1
    return truth ? combined(*truth, *truth, [](Interval a, Interval) {
      return std::optional(Interval{-a.high, -a.low});
    })
                 : std::nullopt;
  }
  if (isa<arith::ExtSIOp, arith::IndexCastOp, arith::TruncIOp>(op))
    return rangeAt(op->getOperand(0), depth + 1); // a truncation that loses bits is out of range
  if (isa<arith::ExtUIOp, arith::IndexCastUIOp>(op)) {
    std::optional<Bounds> inner = rangeAt(op->getOperand(0), depth + 1);
    return inner && inner->hull().low >= 0 ? inner : std::nullopt;
  }
  if (auto select = dyn_cast<arith::SelectOp>(op))
    return united(rangeAt(select.getTrueValue(), depth + 1),
                  rangeAt(select.getFalseValue(), depth + 1));
  unsigned index = cast<OpResult>(value).getResultNumber();
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    if (branch.getThenRegion().empty() || branch.getElseRegion().empty())
      return std::nullopt;
    Value yielded = operand(branch.thenYield(), index), other = operand(branch.elseYield(), index);
    if (!yielded || !other)
      return std::nullopt;
    return united(rangeAt(yielded, depth + 1), rangeAt(other, depth + 1));
  }
  if (isa<scf::ForOp>(op))
    return carried(op, index, /*after=*/true, depth);
  Together together = op->getNumOperands() == 2 ? operatorOf(op) : nullptr;
  if (!together)
    return std::nullopt;
  std::optional<Bounds> a = rangeAt(op->getOperand(0), depth + 1);
  std::optional<Bounds> b = rangeAt(op->getOperand(1), depth + 1);
  if (!b || (!a && !isa<arith::RemSIOp>(op)))
    return std::nullopt;
  if (!a) { // whatever is divided, the divisor bounds what is left
    a = Bounds(typeRange(64));
    a->ofType = true;
  }
  return combined(*a, *b, together);
}

std::optional<Bounds> Numbers::ofBlockArgument(BlockArgument argument, unsigned depth) {
  auto loop = dyn_cast_or_null<scf::ForOp>(argument.getOwner()->getParentOp());
  if (!loop)
    return std::nullopt;
  if (argument.getArgNumber() > 0)
    return carried(loop, argument.getArgNumber() - 1, /*after=*/false, depth);
  std::optional<Bounds> low = rangeAt(loop.getLowerBound(), depth + 1);
  std::optional<Bounds> high = rangeAt(loop.getUpperBound(), depth + 1);
  std::optional<Bounds> step = rangeAt(loop.getStep(), depth + 1);
  if (!low || !high || !step)
    return std::nullopt;
  // As bounds of (first, last); where the loop never runs anything is true inside.
  auto last = combined(*low, *high, [](Interval from, Interval to) -> std::optional<Interval> {
    if (to.high == std::numeric_limits<int64_t>::min())
      return std::nullopt;
    return Interval{from.low, std::max(to.high - 1, from.low)};
  });
  if (!last)
    return std::nullopt;
  bool exact = low->exact() && step->exact();
  return combined(*last, *step, [&](Interval all, Interval by) -> std::optional<Interval> {
    int64_t span;
    if (by.low < 1)
      return std::nullopt;
    if (exact && !__builtin_sub_overflow(all.high, all.low, &span))
      all.high = all.low + span / by.low * by.low;
    return all;
  });
}

std::optional<Bounds> Numbers::tripRange(Operation *op) { return tripRangeAt(op, 0); }

std::optional<Bounds> Numbers::tripRangeAt(Operation *op, unsigned depth) {
  auto loop = dyn_cast<scf::ForOp>(op);
  if (!loop)
    return std::nullopt;
  std::optional<Bounds> low = rangeAt(loop.getLowerBound(), depth + 1);
  std::optional<Bounds> high = rangeAt(loop.getUpperBound(), depth + 1);
  std::optional<Bounds> step = rangeAt(loop.getStep(), depth + 1);
  if (!low || !high || !step)
    return std::nullopt;
  std::optional<Bounds> span = combined(*high, *low, difference);
  if (!span)
    return std::nullopt;
  return combined(*span, *step, [](Interval all, Interval by) -> std::optional<Interval> {
    if (by.low < 1)
      return std::nullopt;
    auto times = [](int64_t length, int64_t step) {
      return length <= 0 ? int64_t(0) : (length - 1) / step + 1;
    };
    return Interval{times(all.low, by.high), times(all.high, by.low)};
  });
}

/// Whether `value` is computed from `argument`.
static bool reaches(Value value, Value argument) {
  SmallVector<Value> waiting{value};
  llvm::DenseSet<Value> seen;
  while (!waiting.empty()) {
    Value current = waiting.pop_back_val();
    if (current == argument)
      return true;
    if (current.getDefiningOp() && seen.insert(current).second)
      llvm::append_range(waiting, current.getDefiningOp()->getOperands());
  }
  return false;
}

/// What `value` adds to `argument`, where it is a chain of additions of other values.
std::optional<Bounds> Numbers::addedTo(Value argument, Value value, unsigned depth) {
  std::optional<Bounds> total = Bounds(Interval{0, 0});
  for (unsigned steps = 0; steps < maxDepth && total; ++steps) {
    if (value == argument)
      return total;
    auto add = value.getDefiningOp<arith::AddIOp>();
    if (!add)
      return std::nullopt;
    bool first = reaches(add.getLhs(), argument);
    Value other = first ? add.getRhs() : add.getLhs();
    value = first ? add.getLhs() : add.getRhs();
    if (reaches(other, argument))
      return std::nullopt;
    std::optional<Bounds> more = rangeAt(other, depth + 1);
    total = more ? combined(*total, *more, added) : std::nullopt;
  }
  return std::nullopt;
}

/// A loop-carried integer that does not change, or grows by the same step each time.
std::optional<Bounds> Numbers::carried(Operation *op, unsigned index, bool after, unsigned depth) {
  auto loop = cast<scf::ForOp>(op);
  if (index >= loop.getInitArgs().size())
    return std::nullopt;
  Value argument = loop.getRegionIterArg(index);
  Value following = operand(loop.getBody()->getTerminator(), index);
  std::optional<Bounds> start = rangeAt(loop.getInitArgs()[index], depth + 1);
  if (!start || !following || following == argument)
    return start;
  std::optional<Bounds> step = addedTo(argument, following, depth);
  std::optional<Bounds> trips = tripRangeAt(loop, depth);
  if (!step || !trips)
    return std::nullopt;
  auto grown = combined(*trips, *step, [&](Interval times, Interval by) {
    // Inside the loop the last step has not been added yet.
    return product({0, after ? times.high : std::max<int64_t>(times.high - 1, 0)}, by);
  });
  return grown ? combined(*start, *grown, added) : std::nullopt;
}

std::optional<Bounds> Numbers::sum(const std::optional<Bounds> &a, const std::optional<Bounds> &b) {
  return a && b ? combined(*a, *b, added) : std::nullopt;
}

std::optional<Bounds> Numbers::scaled(const std::optional<Bounds> &a, int64_t factor) {
  return a ? combined(*a, Bounds(Interval{factor, factor}), product) : std::nullopt;
}

std::optional<Bounds> Numbers::upTo(const Bounds &times, const std::optional<Bounds> &step) {
  return step ? combined(times, *step, [](Interval count, Interval by) {
    return product({0, std::max<int64_t>(count.high - 1, 0)}, by);
  })
              : std::nullopt;
}

bool Numbers::neverAbove(const Bounds &a, const Bounds &b) {
  std::optional<Bounds> holds = combined(a, b, [](Interval x, Interval y) {
    return std::optional(Interval{x.high <= y.low, 1});
  });
  return holds && holds->hull().low == 1;
}

/// A divisor of a product: of its factors' divisors the product, else the larger. 0 stands for
/// "every number", the divisor of zero, as std::gcd has it.
static int64_t divisorOfProduct(int64_t a, int64_t b) {
  int64_t both;
  return __builtin_mul_overflow(a, b, &both) ? std::max(a, b) : both;
}

int64_t Numbers::divisor(Value value, unsigned depth) {
  if (auto kept = keptDivisors.find(value); kept != keptDivisors.end())
    return kept->second;
  if (depth >= maxDepth)
    return 1;
  int64_t computed = computeDivisor(value, depth);
  return keptDivisors[value] = computed;
}

int64_t Numbers::computeDivisor(Value value, unsigned depth) {
  if (std::optional<int64_t> number = integerBits(value.getType()) ? constant(value) : std::nullopt)
    return *number == std::numeric_limits<int64_t>::min() ? 1 : std::abs(*number);
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (functionArgument(value))
      return argumentDivisibility(argument);
    auto loop = dyn_cast_or_null<scf::ForOp>(argument.getOwner()->getParentOp());
    if (loop && argument.getArgNumber() == 0)
      return std::gcd(divisor(loop.getLowerBound(), depth + 1), divisor(loop.getStep(), depth + 1));
    return 1;
  }
  Operation *op = value.getDefiningOp();
  if (Value inner = throughShape(op))
    return divisor(inner, depth + 1);
  if (op->getName().getStringRef() == "tt.addptr" && op->getNumOperands() == 2) {
    TypeView view = viewType(value.getType());
    int64_t bytes = std::max(1u, view.elementBits() / 8);
    return std::gcd(divisor(op->getOperand(0), depth + 1),
                    divisorOfProduct(divisor(op->getOperand(1), depth + 1), bytes));
  }
  if (isa<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp, arith::IndexCastOp>(op)) {
    int64_t inner = divisor(op->getOperand(0), depth + 1);
    return isa<arith::TruncIOp>(op) ? (inner & -inner) : inner;
  }
  if (isa<arith::AddIOp, arith::SubIOp, arith::MinSIOp, arith::MaxSIOp>(op))
    return std::gcd(divisor(op->getOperand(0), depth + 1), divisor(op->getOperand(1), depth + 1));
  if (auto select = dyn_cast<arith::SelectOp>(op))
    return std::gcd(divisor(select.getTrueValue(), depth + 1),
                    divisor(select.getFalseValue(), depth + 1));
  if (isa<arith::MulIOp>(op))
    return divisorOfProduct(divisor(op->getOperand(0), depth + 1),
                            divisor(op->getOperand(1), depth + 1));
  return 1;
}

/// A lower bound of `n - k`, where k counts a loop over n in steps that divide n: at the last
/// iteration one whole step is left. k is the counter of a loop from 0 to n by `step`, or `step`
/// times the counter of a loop over cdiv(n, step).
std::optional<int64_t> Numbers::restOfLoop(Value value) {
  for (unsigned depth = 0; value.getDefiningOp() && depth < maxDepth; ++depth) {
    Value inner = throughShape(value.getDefiningOp());
    if (!inner)
      break;
    value = inner;
  }
  auto rest = value.getDefiningOp<arith::SubIOp>();
  if (!rest)
    return std::nullopt;
  Value count = rest.getLhs(), position = rest.getRhs();
  std::optional<int64_t> factor = 1;
  if (auto product = position.getDefiningOp<arith::MulIOp>()) {
    bool counterFirst = isa<BlockArgument>(product.getLhs());
    position = counterFirst ? product.getLhs() : product.getRhs();
    factor = constant(counterFirst ? product.getRhs() : product.getLhs());
  }
  auto counter = dyn_cast<BlockArgument>(position);
  auto loop =
      counter ? dyn_cast_or_null<scf::ForOp>(counter.getOwner()->getParentOp()) : scf::ForOp();
  if (!loop || counter.getArgNumber() != 0 || !factor || constant(loop.getLowerBound()) != 0)
    return std::nullopt;
  std::optional<int64_t> step = constant(loop.getStep());
  if (!step || *step < 1 || *factor < 1)
    return std::nullopt;
  int64_t whole = 0;
  if (*factor == 1 && loop.getUpperBound() == count)
    whole = *step;
  else if (auto divide = loop.getUpperBound().getDefiningOp<arith::DivSIOp>();
           divide && *step == 1) {
    auto sum = divide.getLhs().getDefiningOp<arith::AddIOp>();
    bool up = sum && sum.getLhs() == count && constant(sum.getRhs()) == *factor - 1;
    if ((up || divide.getLhs() == count) && constant(divide.getRhs()) == *factor)
      whole = *factor;
  }
  // 0 iterations where n is not positive: then anything holds inside.
  return whole && divisor(count) % whole == 0 ? std::optional<int64_t>(whole) : std::nullopt;
}

bool Numbers::alwaysTrue(Value value, unsigned depth) {
  if (auto kept = keptTruths.find(value); kept != keptTruths.end())
    return kept->second;
  if (depth >= maxDepth)
    return false;
  bool computed = computeAlwaysTrue(value, depth);
  return keptTruths[value] = computed;
}

bool Numbers::computeAlwaysTrue(Value value, unsigned depth) {
  Operation *op = value.getDefiningOp();
  if (!op || integerBits(value.getType()) != 1)
    return false;
  if (std::optional<Bounds> found = ranges(value); found && found->hull().low > 0)
    return true;
  // Beyond what bounds show: a loop's rest, and a side of `or` alone.
  if (Value inner = throughShape(op))
    return alwaysTrue(inner, depth + 1);
  if (isa<arith::AndIOp>(op))
    return alwaysTrue(op->getOperand(0), depth + 1) && alwaysTrue(op->getOperand(1), depth + 1);
  if (isa<arith::OrIOp>(op))
    return alwaysTrue(op->getOperand(0), depth + 1) || alwaysTrue(op->getOperand(1), depth + 1);
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare || compare.getPredicate() != arith::CmpIPredicate::slt)
    return false;
  std::optional<Interval> a = range(compare.getLhs());
  std::optional<int64_t> rest = restOfLoop(compare.getRhs());
  return a && rest && a->high < *rest;
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

static bool isNumber(StringRef text) {
  text.consume_front("-");
  return !text.empty() && llvm::all_of(text, llvm::isDigit);
}

static bool isWordCharacter(char c) { return llvm::isAlnum(c) || c == '_' || (c & 0x80); }

/// In brackets, where it is not one word or one call.
static std::string wrapped(const std::string &text) {
  StringRef rest = StringRef(text).drop_while([](char c) { return isWordCharacter(c) || c == '.'; });
  bool call = rest.size() > 1 && rest.size() < text.size() && rest.front() == '(' &&
              rest.find_first_of(")(", 1) == rest.size() - 1 && rest.back() == ')';
  return (rest.empty() && !text.empty()) || call ? text : "(" + text + ")";
}

static std::string folded(StringRef sign, const std::string &a, const std::string &b) {
  bool additive = sign == "+" || sign == "-";
  if (sign == "min" || sign == "max")
    return sign.str() + "(" + a + ", " + b + ")";
  if ((additive && b == "0") || ((sign == "*" || sign == "//") && b == "1"))
    return a;
  if ((sign == "+" && a == "0") || (sign == "*" && a == "1"))
    return b;
  if (sign == "*" && (a == "0" || b == "0"))
    return "0";
  int64_t x, y, made;
  if (isNumber(a) && isNumber(b) && !StringRef(a).getAsInteger(10, x) &&
      !StringRef(b).getAsInteger(10, y) &&
      ((sign == "+" && !__builtin_add_overflow(x, y, &made)) ||
       (sign == "-" && !__builtin_sub_overflow(x, y, &made)) ||
       (sign == "*" && !__builtin_mul_overflow(x, y, &made))))
    return std::to_string(made);
  return wrapped(a) + " " + sign.str() + " " + wrapped(b);
}

/// `(x + 31) // 32` as `cdiv(x, 32)`; "" for anything else.
static std::string ceilingDivision(StringRef a, StringRef b) {
  auto [numerator, added] = a.rsplit(" + ");
  int64_t by, more;
  if (added.empty() || !llvm::all_of(added, llvm::isDigit) || b.getAsInteger(10, by) ||
      added.getAsInteger(10, more) || by < 1 || more != by - 1)
    return "";
  if (numerator.starts_with("(") && numerator.ends_with(")"))
    numerator = numerator.drop_front().drop_back();
  return ("cdiv(" + numerator + ", " + b + ")").str();
}

std::string Numbers::text(Value value, unsigned depth) {
  if (auto kept = keptTexts.find(value); kept != keptTexts.end())
    return kept->second;
  if (depth >= maxDepth)
    return "";
  keptTexts[value] = ""; // cuts cycles
  std::string computed = computeText(value, depth);
  if (computed.size() > longestText)
    computed = "";
  return keptTexts[value] = computed;
}

std::string Numbers::computeText(Value value, unsigned depth) {
  if (functionArgument(value))
    return holdsPointers(value.getType()) ? "" : nameOf(cast<BlockArgument>(value));
  Operation *op = value.getDefiningOp();
  if (!op)
    return "";
  if (std::optional<int64_t> number = constantOf(op))
    return std::to_string(*number);
  StringRef name = op->getName().getStringRef();
  if (name == "tt.get_program_id" || name == "tt.get_num_programs")
    return (name == "tt.get_program_id" ? "pid" : "programs") +
           std::to_string(integerAttribute(op, "axis").value_or(0));
  if (Value inner = throughShape(op))
    return text(inner, depth + 1);
  if (isa<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp, arith::IndexCastOp,
          arith::IndexCastUIOp>(op) ||
      (name == "tt.unsplat" && op->getNumOperands() == 1))
    return text(op->getOperand(0), depth + 1);
  StringRef sign = isa<arith::AddIOp>(op)                     ? "+"
                   : isa<arith::SubIOp>(op)                   ? "-"
                   : isa<arith::MulIOp>(op)                   ? "*"
                   : isa<arith::DivSIOp, arith::DivUIOp>(op)  ? "//"
                   : isa<arith::RemSIOp, arith::RemUIOp>(op)  ? "%"
                   : isa<arith::MinSIOp, arith::MinUIOp>(op)  ? "min"
                   : isa<arith::MaxSIOp>(op)                  ? "max"
                                                              : "";
  if (sign.empty())
    return "";
  std::string a = text(op->getOperand(0), depth + 1), b = text(op->getOperand(1), depth + 1);
  if (a.empty() || b.empty())
    return "";
  std::string whole = isa<arith::DivSIOp>(op) ? ceilingDivision(a, b) : "";
  return whole.empty() ? folded(sign, a, b) : whole;
}

std::optional<int64_t> Numbers::trips(Operation *op) {
  std::optional<Bounds> found = tripRange(op);
  return found && !found->ofType ? found->constant() : std::nullopt;
}

std::string Numbers::tripText(Operation *op) {
  auto loop = dyn_cast<scf::ForOp>(op);
  if (!loop)
    return "";
  std::string low = text(loop.getLowerBound()), high = text(loop.getUpperBound());
  std::string step = text(loop.getStep());
  if (low.empty() || high.empty() || step.empty())
    return "";
  bool plain = llvm::all_of(low, llvm::isAlnum);
  std::string span = low == "0" ? high : high + " - " + (plain ? low : "(" + low + ")");
  return step == "1" ? span : "cdiv(" + span + ", " + step + ")";
}

//===----------------------------------------------------------------------===//
// Slopes
//===----------------------------------------------------------------------===//

static Slope constantSlope(int64_t number) { return {Slope::Constant, number, "", ""}; }

static std::string stepText(const Slope &slope) {
  return slope.kind == Slope::Constant ? std::to_string(slope.constant) : slope.symbol;
}

/// A number or an expression; "" stands for a step that is none.
static Slope namedSlope(const std::string &text, const std::string &modulo) {
  int64_t number;
  if (isNumber(text) && !StringRef(text).getAsInteger(10, number))
    return {Slope::Constant, number, "", modulo};
  if (text.empty() || text.size() > longestText)
    return {Slope::Unnamed, 0, "", modulo};
  return {Slope::Symbolic, 0, text, modulo};
}

static Slope addSlopes(const Slope &a, const Slope &b, bool subtract) {
  if (a.kind == Slope::Unknown || b.kind == Slope::Unknown)
    return {};
  if (b.isZero() && b.modulo.empty())
    return a;
  if (a.isZero() && a.modulo.empty() && !subtract)
    return b;
  const std::string &modulo = a.modulo.empty() ? b.modulo : a.modulo;
  if (a.kind == Slope::Unnamed || b.kind == Slope::Unnamed)
    return {Slope::Unnamed, 0, "", modulo};
  return namedSlope(folded(subtract ? "-" : "+", stepText(a), stepText(b)), modulo);
}

static Slope scaleSlope(const Slope &slope, const std::string &factor) {
  if (slope.kind == Slope::Unknown || (slope.isZero() && slope.modulo.empty()))
    return slope;
  if (factor.empty() || slope.kind == Slope::Unnamed)
    return {Slope::Unnamed, 0, "", slope.modulo};
  return namedSlope(folded("*", stepText(slope), factor), slope.modulo);
}

Slope Numbers::slope(Value value, unsigned dimension) {
  Slopes found = slopes(value, 0);
  return dimension < found.size() ? found[dimension] : Slope();
}

Numbers::Slopes Numbers::slopes(Value value, unsigned depth) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  if (!tensor)
    return {};
  unsigned rank = tensor.getRank();
  if (auto kept = keptSlopes.find(value); kept != keptSlopes.end())
    return kept->second;
  Slopes unknown(rank);
  if (depth >= maxDepth)
    return unknown;
  keptSlopes[value] = unknown; // cuts cycles
  Slopes computed = computeSlopes(value, rank, depth);
  if (computed.size() != rank)
    computed = unknown;
  // Along one element nothing grows.
  for (auto [dimension, slope] : llvm::enumerate(computed))
    if (slope.kind == Slope::Unknown && tensor.getDimSize(dimension) == 1)
      slope = constantSlope(0);
  return keptSlopes[value] = computed;
}

Numbers::Slopes Numbers::computeSlopes(Value value, unsigned rank, unsigned depth) {
  auto of = [&](Value operand) { return slopes(operand, depth + 1); };
  auto flat = [](const Slopes &all) {
    return llvm::all_of(all, [](const Slope &one) { return one.isZero() && one.modulo.empty(); });
  };
  Operation *op = value.getDefiningOp();
  Slopes zeros(rank, constantSlope(0));
  if (auto loop = dyn_cast_or_null<scf::ForOp>(op)) // as inside, a step later
    return of(loop.getRegionIterArg(cast<OpResult>(value).getResultNumber()));
  if (!op) {
    // Loops move addresses as a whole: what a step adds must itself be the same everywhere.
    auto argument = cast<BlockArgument>(value);
    auto loop = dyn_cast_or_null<scf::ForOp>(argument.getOwner()->getParentOp());
    unsigned index = argument.getArgNumber();
    if (!loop || index == 0 || index - 1 >= loop.getInitArgs().size())
      return {};
    Value following = operand(loop.getBody()->getTerminator(), index - 1);
    if (following != value) {
      Operation *step = following ? following.getDefiningOp() : nullptr;
      bool moves = step &&
                   (step->getName().getStringRef() == "tt.addptr" || isa<arith::AddIOp>(step)) &&
                   step->getNumOperands() == 2 && step->getOperand(0) == value;
      if (!moves)
        return {};
      Slopes added = of(step->getOperand(1)), start = of(loop.getInitArgs()[index - 1]);
      if (added.size() != rank || start.size() != rank)
        return {};
      for (auto [one, by] : llvm::zip_equal(start, added))
        if (!by.isZero() || !by.modulo.empty())
          one = Slope();
      return start;
    }
    return of(loop.getInitArgs()[index - 1]);
  }
  StringRef name = op->getName().getStringRef();
  if (constantOf(op) || name == "tt.splat")
    return zeros;
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue()); dense && dense.isSplat())
      return zeros;
  if (name == "tt.make_range" && rank == 1)
    return {constantSlope(1)};
  if (op->getNumOperands() == 1) {
    if (name == "tt.broadcast" || name == "ttg.convert_layout" ||
        isa<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(op))
      return of(op->getOperand(0));
    Slopes inner = of(op->getOperand(0));
    if (name == "tt.expand_dims") {
      int64_t axis = integerAttribute(op, "axis").value_or(0);
      if (axis < 0 || axis > int64_t(inner.size()) || inner.size() + 1 != rank)
        return {};
      inner.insert(inner.begin() + axis, constantSlope(0));
      return inner;
    }
    if (name == "tt.trans") {
      Slopes moved;
      for (int64_t dimension : integersAttribute(op, "order"))
        moved.push_back(dimension >= 0 && dimension < int64_t(inner.size()) ? inner[dimension]
                                                                            : Slope());
      return moved;
    }
    return {};
  }
  bool sums = isa<arith::AddIOp, arith::SubIOp>(op) || name == "tt.addptr";
  bool scales = isa<arith::MulIOp>(op), wraps = isa<arith::RemSIOp, arith::RemUIOp>(op);
  if (op->getNumOperands() != 2 || !(sums || scales || wraps))
    return {};
  Value left = op->getOperand(0), right = op->getOperand(1);
  Slopes a = of(left), b = of(right);
  if (a.size() != rank || b.size() != rank)
    return {};
  if (sums) {
    for (auto [one, other] : llvm::zip_equal(a, b))
      one = addSlopes(one, other, isa<arith::SubIOp>(op));
    return a;
  }
  if (scales) {
    if (!flat(b)) {
      std::swap(a, b);
      std::swap(left, right);
    }
    if (!flat(b))
      return {};
    std::string factor = text(right);
    for (Slope &one : a)
      one = scaleSlope(one, factor);
    return a;
  }
  if (!flat(b))
    return {};
  std::optional<Bounds> whole = ranges(left), limit = ranges(right);
  if (whole && limit)
    if (std::optional<Bounds> inside = combined(*whole, *limit, [](Interval x, Interval y) {
          return std::optional(Interval{x.low >= 0 && x.high < y.low, 1});
        });
        inside && inside->hull().low == 1)
      return a; // it never wraps
  std::string modulo = text(right);
  for (Slope &one : a)
    if (one.kind != Slope::Unknown && !one.isZero())
      one.modulo = modulo.empty() ? "a value" : modulo;
  return a;
}
