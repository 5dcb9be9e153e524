//===- Encodings.h - Layouts of tensors, and what they imply --------------===//
//
// Both spellings of the Intel dialect (`#triton_intel_gpu.dpas`, `#ttig.dpas`) are one kind here:
// "dpas". Encodings nest: a slice or a dot operand has a parent.
//
//===----------------------------------------------------------------------===//

#ifndef XESMITH_ENCODINGS_H
#define XESMITH_ENCODINGS_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mlir::xesmith {

struct Encoding;

/// The value of one parameter: a number (true is 1), a word, a list or an encoding.
struct Parameter {
  enum Kind { Number, Word, List, Nested } kind = Word;
  int64_t number = 0;
  std::string word;
  std::vector<Parameter> items;
  std::shared_ptr<const Encoding> encoding;
  bool operator==(const Parameter &other) const;
};

/// `#dialect.kind<{name = value, ...}>`. A body of another form is kept as text only.
struct Encoding {
  std::string dialect, kind, text;
  std::vector<std::pair<std::string, Parameter>> parameters; // by name

  const Parameter *find(StringRef name) const;
  int64_t integer(StringRef name, int64_t otherwise = 0) const;
  SmallVector<int64_t> integers(StringRef name) const;
  const Encoding *parent() const;
  bool isIntel() const { return dialect == "triton_intel_gpu" || dialect == "ttig"; }
  bool isDpas() const { return isIntel() && kind == "dpas"; }
  bool isDpasOperand() const { return kind == "dot_op" && parent() && parent()->isDpas(); }
  /// For sentences: "blocked", "dot operand 0 of dpas", "slice of blocked".
  std::string shortText() const;
  bool sameLayout(const Encoding &other) const {
    return kind == other.kind && parameters == other.parameters &&
           (!parameters.empty() || text == other.text);
  }
};

/// nullopt for a text that does not begin as an encoding does, "" among them.
std::optional<Encoding> parseEncoding(StringRef text);

using Shape = SmallVector<int64_t>;

/// Dimensions from the fastest to the slowest; row major where the encoding does not say.
SmallVector<int64_t> dimensionOrder(const Encoding &encoding, unsigned rank);
/// Elements per dimension that all threads hold in one step; nullopt for unknown kinds.
std::optional<Shape> tileOf(const Encoding &encoding, ArrayRef<int64_t> shape);
/// Elements along the fastest dimension that one thread holds side by side.
std::optional<int64_t> contiguousPerThread(const Encoding &encoding, unsigned rank);

/// Bytes of shared local memory through which a layout conversion goes.
///
/// 0 where every element stays with its thread: equal layouts, the first operand of a DPAS that
/// the same DPAS computed, and layouts that give equal ownership. Otherwise the scratch buffer: the
/// larger of both tiles, its fastest row padded by the wider vector. nullopt where a layout's
/// ownership is not known here.
std::optional<int64_t> conversionSlmBytes(const Encoding &source, const Encoding &destination,
                                          ArrayRef<int64_t> shape, unsigned elementBits);

} // namespace mlir::xesmith

#endif // XESMITH_ENCODINGS_H
