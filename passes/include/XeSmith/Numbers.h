//===- Numbers.h - What can be proven of integers -------------------------===//

#ifndef XESMITH_NUMBERS_H
#define XESMITH_NUMBERS_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>
#include <string>

namespace mlir::xesmith {

/// All values of an integer, or of all elements of a tensor of integers.
struct Interval {
  int64_t low;
  int64_t high;
};

/// How a tensor's elements grow along a dimension: by a constant, by the value of an argument
/// (or an expression of them), or in a way that is not known.
struct Slope {
  enum Kind { Constant, Symbolic, Unknown } kind = Unknown;
  int64_t constant = 0;
  std::string symbol; // how the step is written, for Symbolic
  std::string modulo; // what the index was taken modulo of, "" for nothing
  bool isZero() const { return kind == Constant && constant == 0; }
};

/// Facts about the integers of one function. Answers are kept; make a new one after a change.
class Numbers {
public:
  /// `grid`: programs along each axis of the launch; 0 where it is not known.
  explicit Numbers(ArrayRef<int64_t> grid = {}) : grid(grid.begin(), grid.end()) {}

  /// The value of an argument is `number` (what a launch gives).
  void assume(Value argument, int64_t number) { assumed[argument] = number; }

  std::optional<int64_t> constant(Value value);
  /// Proven bounds of every element, with no overflow of its type on the way.
  std::optional<Interval> range(Value value);
  /// The largest number that is proven to divide every element (a pointer's: in bytes).
  int64_t divisor(Value value, unsigned depth = 0);
  /// Whether an i1 is true in every element.
  bool alwaysTrue(Value value, unsigned depth = 0);
  Slope slope(Value value, unsigned dimension, unsigned depth = 0);
  /// As an expression of argument names: "cdiv(K, 32)"; "" where it is none.
  std::string text(Value value, unsigned depth = 0);
  /// How often a loop's body runs: a number, and as an expression ("" where it is none).
  std::optional<int64_t> trips(Operation *loop);
  std::string tripText(Operation *loop);

private:
  std::optional<int64_t> restOfLoop(Value value);
  std::optional<Interval> computeRange(Value value, unsigned depth);
  std::optional<Interval> rangeAt(Value value, unsigned depth);

  SmallVector<int64_t> grid;
  llvm::DenseMap<Value, int64_t> assumed;
  llvm::DenseMap<Value, std::optional<Interval>> ranges;
};

} // namespace mlir::xesmith

#endif // XESMITH_NUMBERS_H
