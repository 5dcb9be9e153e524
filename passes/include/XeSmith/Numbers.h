//===- Numbers.h - What can be proven of integers -------------------------===//

#ifndef XESMITH_NUMBERS_H
#define XESMITH_NUMBERS_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mlir::xesmith {

/// All values of an integer, or of all elements of a tensor of integers.
struct Interval {
  int64_t low;
  int64_t high;
};

/// Bounds in each program of the grid, or one pair for all of them.
class Bounds {
public:
  Bounds(Interval all) : low(column({all.low})), high(column({all.high})) {}
  Bounds(std::vector<int64_t> low, std::vector<int64_t> high);

  size_t size() const { return low->size(); }
  Interval at(size_t program) const {
    size_t index = size() == 1 ? 0 : program;
    return {(*low)[index], (*high)[index]};
  }
  bool exact() const;
  /// Over all programs.
  Interval hull() const;
  /// The one value in every program.
  std::optional<int64_t> constant() const;
  /// Over all programs, of the middles of their bounds.
  double mean() const;
  bool any(llvm::function_ref<bool(Interval)> holds) const;

  /// Some bound comes of the type alone: nothing is known of the value behind it.
  bool ofType = false;

private:
  using Column = std::shared_ptr<const std::vector<int64_t>>;
  static Column column(std::vector<int64_t> numbers) {
    return std::make_shared<const std::vector<int64_t>>(std::move(numbers));
  }
  Column low, high; // one and the same where all values are known exactly
};

/// How a tensor's elements grow along a dimension: by a constant, by an expression of arguments,
/// by a number that is no such expression, or in a way that is not known.
struct Slope {
  enum Kind { Constant, Symbolic, Unnamed, Unknown } kind = Unknown;
  int64_t constant = 0;
  std::string symbol; // how the step is written, for Symbolic
  std::string modulo; // what the index was taken modulo of, "" for nothing
  bool isZero() const { return kind == Constant && constant == 0; }
  bool isOne() const { return kind == Constant && constant == 1; }
};

/// Facts about the integers of one function. Answers are kept; make a new one after a change.
///
/// Where the grid is given and has at most `mostPrograms` programs, bounds are those of each
/// program; else of all at once.
class Numbers {
public:
  using IntervalOperator = llvm::function_ref<std::optional<Interval>(Interval, Interval)>;
  static constexpr int64_t mostPrograms = 1 << 16;

  /// `grid`: programs along each axis of the launch; 0 where it is not known.
  explicit Numbers(ArrayRef<int64_t> grid = {});

  /// The value of an argument is `number` (what a launch gives).
  void assume(Value argument, int64_t number) { assumed[argument] = number; }
  /// How the arguments are called, in order; else by their locations, or "arg<number>".
  void call(ArrayRef<std::string> names) { this->names.assign(names.begin(), names.end()); }
  /// Looks at the last program alone.
  void lookAtLastProgram();

  std::string nameOf(BlockArgument argument) const;
  /// Programs of the grid; nullopt where it is not known.
  std::optional<int64_t> programs() const;

  std::optional<int64_t> constant(Value value);
  /// Proven bounds of every element, with no overflow of its type on the way.
  std::optional<Interval> range(Value value);
  /// The same for each program.
  std::optional<Bounds> ranges(Value value) { return rangeAt(value, 0); }
  /// `ranges`, without bounds that come of a type alone.
  std::optional<Bounds> known(Value value);
  /// Bounds of a sum, of a multiple, and of what fewer than `times` steps add.
  std::optional<Bounds> sum(const std::optional<Bounds> &a, const std::optional<Bounds> &b);
  std::optional<Bounds> scaled(const std::optional<Bounds> &a, int64_t factor);
  std::optional<Bounds> upTo(const Bounds &times, const std::optional<Bounds> &step);
  /// Whether in each program all of `a` is at most the least of `b`.
  bool neverAbove(const Bounds &a, const Bounds &b);
  /// The largest number that is proven to divide every element (a pointer's: in bytes).
  int64_t divisor(Value value, unsigned depth = 0);
  /// Whether an i1 is true in every element.
  bool alwaysTrue(Value value, unsigned depth = 0);
  Slope slope(Value value, unsigned dimension);
  /// As an expression of argument names, `pid0` and the like: "cdiv(K, 32)"; "" where it is none.
  std::string text(Value value, unsigned depth = 0);
  /// How often a loop's body runs: the same in every program, or in each of them, and as an
  /// expression ("" where it is none).
  std::optional<int64_t> trips(Operation *loop);
  std::optional<Bounds> tripRange(Operation *loop);
  std::string tripText(Operation *loop);

private:
  using Slopes = SmallVector<Slope, 2>;
  std::optional<Bounds> combined(const Bounds &a, const Bounds &b, IntervalOperator together);
  std::optional<Bounds> united(std::optional<Bounds> a, std::optional<Bounds> b);
  std::optional<Bounds> programId(std::optional<int64_t> axis);
  std::optional<int64_t> restOfLoop(Value value);
  std::optional<Bounds> computeRange(Value value, unsigned depth);
  std::optional<Bounds> rangeAt(Value value, unsigned depth);
  std::optional<Bounds> ofBlockArgument(BlockArgument argument, unsigned depth);
  std::optional<Bounds> carried(Operation *loop, unsigned index, bool after, unsigned depth);
  std::optional<Bounds> addedTo(Value argument, Value value, unsigned depth);
  std::optional<Bounds> tripRangeAt(Operation *loop, unsigned depth);
  int64_t computeDivisor(Value value, unsigned depth);
  bool computeAlwaysTrue(Value value, unsigned depth);
  Slopes slopes(Value value, unsigned depth);
  Slopes computeSlopes(Value value, unsigned rank, unsigned depth);
  std::string computeText(Value value, unsigned depth);

  SmallVector<int64_t> grid;
  SmallVector<std::string> names;
  bool lastProgram = false;
  size_t entriesLeft; // of per-program bounds; then one pair stands for all programs
  llvm::DenseMap<Value, int64_t> assumed;
  llvm::DenseMap<Value, std::optional<Bounds>> keptRanges;
  llvm::DenseMap<Value, std::string> keptTexts;
  llvm::DenseMap<Value, Slopes> keptSlopes;
  llvm::DenseMap<Value, int64_t> keptDivisors;
  llvm::DenseMap<Value, bool> keptTruths;
};

} // namespace mlir::xesmith

#endif // XESMITH_NUMBERS_H
