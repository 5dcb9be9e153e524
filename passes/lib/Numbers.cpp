//===- Numbers.cpp - What can be proven of integers -----------------------===//

#include "XeSmith/Numbers.h"
#include "XeSmith/TritonIR.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <algorithm>
#include <limits>
#include <numeric>

using namespace mlir;
using namespace mlir::xesmith;

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

static std::optional<int64_t> integerAttribute(Operation *op, StringRef name) {
  auto number = op->getAttrOfType<IntegerAttr>(name);
  if (!number || !number.getValue().isSignedIntN(64))
    return std::nullopt;
  return number.getValue().getSExtValue();
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
  std::optional<Interval> known = range(value);
  if (known && known->low == known->high)
    return known->low;
  return std::nullopt;
}

std::optional<Interval> Numbers::range(Value value) { return rangeAt(value, 0); }

std::optional<Interval> Numbers::rangeAt(Value value, unsigned depth) {
  unsigned bits = integerBits(value.getType());
  if (!bits)
    return std::nullopt;
  // Whatever is computed, a value of a narrow type stays in it.
  std::optional<Interval> fallback;
  if (bits <= 32)
    fallback = typeRange(bits);
  if (depth >= maxDepth)
    return fallback;
  if (auto kept = ranges.find(value); kept != ranges.end())
    return kept->second;
  std::optional<Interval> computed = computeRange(value, depth);
  Interval all = typeRange(bits);
  if (!computed || computed->low < all.low || computed->high > all.high ||
      computed->low > computed->high)
    computed = fallback;
  return ranges[value] = computed;
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

std::optional<Interval> Numbers::computeRange(Value value, unsigned depth) {
  if (auto known = assumed.find(value); known != assumed.end())
    return Interval{known->second, known->second};
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast_or_null<scf::ForOp>(argument.getOwner()->getParentOp());
    if (!loop || argument.getArgNumber() != 0)
      return std::nullopt;
    std::optional<Interval> low = rangeAt(loop.getLowerBound(), depth + 1);
    std::optional<Interval> high = rangeAt(loop.getUpperBound(), depth + 1);
    std::optional<Interval> step = rangeAt(loop.getStep(), depth + 1);
    if (!low || !high || !step || step->low < 1 ||
        high->high == std::numeric_limits<int64_t>::min())
      return std::nullopt;
    int64_t last = high->high - 1, span;
    if (low->low == low->high && step->low == step->high &&
        !__builtin_sub_overflow(last, low->low, &span) && span >= 0)
      last = low->low + span / step->low * step->low;
    return Interval{low->low, std::max(last, low->low)}; // never run: anything is true inside
  }
  Operation *op = value.getDefiningOp();
  if (std::optional<int64_t> number = constantOf(op))
    return Interval{*number, *number};
  if (Value inner = throughShape(op))
    return rangeAt(inner, depth + 1);
  StringRef name = op->getName().getStringRef();
  if (name == "tt.make_range") {
    std::optional<int64_t> start = integerAttribute(op, "start"), end = integerAttribute(op, "end");
    if (start && end && *start < *end)
      return Interval{*start, *end - 1};
    return std::nullopt;
  }
  if (name == "tt.get_program_id" || name == "tt.get_num_programs") {
    std::optional<int64_t> axis = integerAttribute(op, "axis");
    int64_t programs = axis && *axis >= 0 && *axis < int64_t(grid.size()) ? grid[*axis] : 0;
    int64_t most = std::numeric_limits<int32_t>::max();
    if (name == "tt.get_program_id")
      return Interval{0, programs > 0 ? programs - 1 : most};
    return programs > 0 ? Interval{programs, programs} : Interval{1, most};
  }
  if (isa<arith::ExtSIOp, arith::IndexCastOp, arith::TruncIOp>(op))
    return rangeAt(op->getOperand(0), depth + 1); // a truncation that loses bits is out of range
  if (isa<arith::ExtUIOp>(op)) {
    std::optional<Interval> inner = rangeAt(op->getOperand(0), depth + 1);
    return inner && inner->low >= 0 ? inner : std::nullopt;
  }
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    std::optional<Interval> a = rangeAt(select.getTrueValue(), depth + 1);
    std::optional<Interval> b = rangeAt(select.getFalseValue(), depth + 1);
    if (!a || !b)
      return std::nullopt;
    return Interval{std::min(a->low, b->low), std::max(a->high, b->high)};
  }
  if (!isa_and_nonnull<arith::ArithDialect>(op->getDialect()) || op->getNumOperands() != 2)
    return std::nullopt;
  std::optional<Interval> a = rangeAt(op->getOperand(0), depth + 1);
  std::optional<Interval> b = rangeAt(op->getOperand(1), depth + 1);
  if (isa<arith::RemSIOp, arith::RemUIOp>(op) && b && b->low >= 1) {
    if (a && a->low >= 0)
      return Interval{0, std::min(a->high, b->high - 1)};
    if (isa<arith::RemSIOp>(op))
      return Interval{-(b->high - 1), b->high - 1};
  }
  if (!a || !b)
    return std::nullopt;
  Interval sum;
  if (isa<arith::AddIOp>(op)) {
    if (__builtin_add_overflow(a->low, b->low, &sum.low) ||
        __builtin_add_overflow(a->high, b->high, &sum.high))
      return std::nullopt;
    return sum;
  }
  if (isa<arith::SubIOp>(op)) {
    if (__builtin_sub_overflow(a->low, b->high, &sum.low) ||
        __builtin_sub_overflow(a->high, b->low, &sum.high))
      return std::nullopt;
    return sum;
  }
  if (isa<arith::MulIOp>(op))
    return product(*a, *b);
  if (isa<arith::ShLIOp>(op) && b->low == b->high && b->low >= 0 && b->low < 62)
    return product(*a, {int64_t(1) << b->low, int64_t(1) << b->low});
  bool unsignedDivision = isa<arith::DivUIOp>(op) && a->low >= 0;
  if ((isa<arith::DivSIOp>(op) || unsignedDivision) && b->low >= 1) {
    int64_t ends[4] = {a->low / b->low, a->low / b->high, a->high / b->low, a->high / b->high};
    return Interval{*std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4)};
  }
  if (isa<arith::MinSIOp>(op))
    return Interval{std::min(a->low, b->low), std::min(a->high, b->high)};
  if (isa<arith::MaxSIOp>(op))
    return Interval{std::max(a->low, b->low), std::max(a->high, b->high)};
  if (isa<arith::AndIOp>(op) && (a->low >= 0 || b->low >= 0)) {
    int64_t most = a->low >= 0 && b->low >= 0 ? std::min(a->high, b->high)
                   : a->low >= 0              ? a->high
                                              : b->high;
    return Interval{0, most};
  }
  return std::nullopt;
}

/// A divisor of a product: of its factors' divisors the product, else the larger. 0 stands for
/// "every number", the divisor of zero, as std::gcd has it.
static int64_t divisorOfProduct(int64_t a, int64_t b) {
  int64_t both;
  return __builtin_mul_overflow(a, b, &both) ? std::max(a, b) : both;
}

int64_t Numbers::divisor(Value value, unsigned depth) {
  if (depth >= maxDepth)
    return 1;
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

static bool holds(arith::CmpIPredicate predicate, Interval a, Interval b) {
  bool natural = a.low >= 0 && b.low >= 0;
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return a.low == a.high && b.low == b.high && a.low == b.low;
  case arith::CmpIPredicate::ne:
    return a.high < b.low || b.high < a.low;
  case arith::CmpIPredicate::ult:
    return natural && a.high < b.low;
  case arith::CmpIPredicate::slt:
    return a.high < b.low;
  case arith::CmpIPredicate::ule:
    return natural && a.high <= b.low;
  case arith::CmpIPredicate::sle:
    return a.high <= b.low;
  case arith::CmpIPredicate::ugt:
    return natural && a.low > b.high;
  case arith::CmpIPredicate::sgt:
    return a.low > b.high;
  case arith::CmpIPredicate::uge:
    return natural && a.low >= b.high;
  case arith::CmpIPredicate::sge:
    return a.low >= b.high;
  }
  return false;
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
  Operation *op = value.getDefiningOp();
  if (!op || depth >= maxDepth)
    return false;
  if (std::optional<int64_t> number = constantOf(op))
    return *number == 1 && integerBits(value.getType()) == 1;
  if (Value inner = throughShape(op))
    return alwaysTrue(inner, depth + 1);
  if (isa<arith::AndIOp>(op))
    return alwaysTrue(op->getOperand(0), depth + 1) && alwaysTrue(op->getOperand(1), depth + 1);
  if (isa<arith::OrIOp>(op))
    return alwaysTrue(op->getOperand(0), depth + 1) || alwaysTrue(op->getOperand(1), depth + 1);
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare)
    return false;
  std::optional<Interval> a = range(compare.getLhs()), b = range(compare.getRhs());
  if (a && b && holds(compare.getPredicate(), *a, *b))
    return true;
  if (!a || compare.getPredicate() != arith::CmpIPredicate::slt)
    return false;
  std::optional<int64_t> rest = restOfLoop(compare.getRhs());
  return rest && a->high < *rest;
}

//===----------------------------------------------------------------------===//
// Slopes
//===----------------------------------------------------------------------===//

static Slope constantSlope(int64_t number) { return {Slope::Constant, number, "", ""}; }

Slope Numbers::slope(Value value, unsigned dimension, unsigned depth) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  if (!tensor)
    return constantSlope(0);
  if (depth >= maxDepth || dimension >= tensor.getRank())
    return {};
  if (tensor.getDimSize(dimension) == 1)
    return constantSlope(0);
  Operation *op = value.getDefiningOp();
  if (!op) {
    // Carried by a loop: every iteration adds the same to all elements, or the slope is unknown.
    auto argument = cast<BlockArgument>(value);
    auto loop = dyn_cast_or_null<scf::ForOp>(argument.getOwner()->getParentOp());
    unsigned index = argument.getArgNumber();
    if (!loop || index == 0 || index - 1 >= loop.getInitArgs().size())
      return {};
    Operation *step = loop.getBody()->getTerminator()->getOperand(index - 1).getDefiningOp();
    bool moves = step &&
                 (step->getName().getStringRef() == "tt.addptr" || isa<arith::AddIOp>(step)) &&
                 step->getNumOperands() == 2 && step->getOperand(0) == value;
    if (!moves || !slope(step->getOperand(1), dimension, depth + 1).isZero())
      return {};
    return slope(loop.getInitArgs()[index - 1], dimension, depth + 1);
  }
  if (constantOf(op))
    return constantSlope(0);
  StringRef name = op->getName().getStringRef();
  if (name == "tt.splat")
    return constantSlope(0);
  if (name == "tt.make_range")
    return constantSlope(1);
  if (name == "tt.expand_dims" && op->getNumOperands() == 1) {
    std::optional<int64_t> axis = integerAttribute(op, "axis");
    if (!axis || *axis < 0 || unsigned(*axis) == dimension)
      return {};
    return slope(op->getOperand(0), dimension - (unsigned(*axis) < dimension), depth + 1);
  }
  if ((name == "tt.broadcast" || name == "ttg.convert_layout" ||
       isa<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(op)) &&
      op->getNumOperands() == 1)
    return slope(op->getOperand(0), dimension, depth + 1);
  if (op->getNumOperands() != 2)
    return {};
  if (isa<arith::RemSIOp>(op) && slope(op->getOperand(1), dimension, depth + 1).isZero()) {
    Slope inner = slope(op->getOperand(0), dimension, depth + 1);
    if (!inner.isZero())
      inner.modulo = text(op->getOperand(1));
    // Where the modulus has no name the rows may wrap anywhere.
    return inner.isZero() || !inner.modulo.empty() ? inner : Slope{};
  }
  if (isa<arith::AddIOp>(op) || name == "tt.addptr") {
    Slope a = slope(op->getOperand(0), dimension, depth + 1);
    Slope b = slope(op->getOperand(1), dimension, depth + 1);
    if (a.isZero())
      return b;
    if (b.isZero())
      return a;
    int64_t sum;
    if (a.kind == Slope::Constant && b.kind == Slope::Constant && a.modulo == b.modulo &&
        !__builtin_add_overflow(a.constant, b.constant, &sum))
      return {Slope::Constant, sum, "", a.modulo};
    return {};
  }
  if (isa<arith::MulIOp>(op)) {
    for (unsigned i : {0u, 1u}) {
      Value factor = op->getOperand(1 - i);
      // The same factor for every element.
      Slope flat = slope(factor, dimension, depth + 1);
      if (!flat.isZero())
        continue;
      Slope inner = slope(op->getOperand(i), dimension, depth + 1);
      if (inner.isZero())
        return inner;
      std::optional<int64_t> number = constant(factor);
      int64_t together;
      if (inner.kind == Slope::Constant && number)
        return __builtin_mul_overflow(inner.constant, *number, &together)
                   ? Slope{}
                   : Slope{Slope::Constant, together, "", inner.modulo};
      std::string symbol = text(factor);
      if (inner.kind == Slope::Constant && inner.constant == 1 && !symbol.empty())
        return {Slope::Symbolic, 0, symbol, inner.modulo};
      return {};
    }
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

static bool isAtom(StringRef text) {
  return llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

static std::string wrapped(const std::string &text) {
  return isAtom(text) || StringRef(text).starts_with("cdiv(") ? text : "(" + text + ")";
}

std::string Numbers::text(Value value, unsigned depth) {
  // An expression doubles with every level: nobody reads one deeper than this.
  if (depth > 8)
    return "";
  if (integerBits(value.getType()))
    if (std::optional<int64_t> number = constant(value))
      return std::to_string(*number);
  if (functionArgument(value))
    return argumentName(cast<BlockArgument>(value));
  Operation *op = value.getDefiningOp();
  if (!op)
    return "";
  if (Value inner = throughShape(op))
    return text(inner, depth + 1);
  if (isa<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp, arith::IndexCastOp>(op))
    return text(op->getOperand(0), depth + 1);
  StringRef name = op->getName().getStringRef();
  if (name == "tt.get_program_id" || name == "tt.get_num_programs") {
    std::optional<int64_t> axis = integerAttribute(op, "axis");
    if (!axis || *axis < 0)
      return "";
    return (name == "tt.get_program_id" ? "pid" : "programs") + std::to_string(*axis);
  }
  if (op->getNumOperands() != 2)
    return "";
  if (auto divide = dyn_cast<arith::DivSIOp>(op)) {
    auto sum = divide.getLhs().getDefiningOp<arith::AddIOp>();
    std::optional<int64_t> by = constant(divide.getRhs());
    if (sum && by && *by > 1 && constant(sum.getRhs()) == *by - 1) {
      std::string inner = text(sum.getLhs(), depth + 1);
      return inner.empty() ? "" : "cdiv(" + inner + ", " + std::to_string(*by) + ")";
    }
  }
  StringRef sign = isa<arith::AddIOp>(op)    ? "+"
                   : isa<arith::SubIOp>(op)  ? "-"
                   : isa<arith::MulIOp>(op)  ? "*"
                   : isa<arith::DivSIOp>(op) ? "//"
                                             : "";
  if (sign.empty())
    return "";
  std::string a = text(op->getOperand(0), depth + 1), b = text(op->getOperand(1), depth + 1);
  if (a.empty() || b.empty())
    return "";
  return wrapped(a) + " " + sign.str() + " " + wrapped(b);
}

std::optional<int64_t> Numbers::trips(Operation *op) {
  auto loop = dyn_cast<scf::ForOp>(op);
  if (!loop)
    return std::nullopt;
  std::optional<int64_t> low = constant(loop.getLowerBound());
  std::optional<int64_t> high = constant(loop.getUpperBound());
  std::optional<int64_t> step = constant(loop.getStep());
  int64_t span;
  if (!low || !high || !step || *step < 1 || __builtin_sub_overflow(*high, *low, &span))
    return std::nullopt;
  return span <= 0 ? 0 : (span - 1) / *step + 1;
}

std::string Numbers::tripText(Operation *op) {
  if (std::optional<int64_t> count = trips(op))
    return std::to_string(*count);
  auto loop = dyn_cast<scf::ForOp>(op);
  if (!loop)
    return "";
  std::string low = text(loop.getLowerBound()), high = text(loop.getUpperBound());
  std::string step = text(loop.getStep());
  if (low.empty() || high.empty() || step.empty())
    return "";
  std::string span = low == "0" ? high : high + " - " + wrapped(low);
  return step == "1" ? span : "cdiv(" + span + ", " + step + ")";
}
