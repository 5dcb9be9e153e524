//===- Encodings.cpp - Layouts of tensors, and what they imply ------------===//

#include "XeSmith/Encodings.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <map>

using namespace mlir;
using namespace mlir::xesmith;

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

namespace {

constexpr unsigned deepestNesting = 32;

/// A reader of `#a.b<{c = 1, d = [1, 2], parent = #e.f<{...}>}>`; false where the form is unknown.
class EncodingParser {
public:
  explicit EncodingParser(StringRef text) : rest(text) {}

  bool encoding(Encoding &made, unsigned depth) {
    StringRef begin = skipped();
    if (depth > deepestNesting || !take("#"))
      return false;
    StringRef name = word();
    std::tie(made.dialect, made.kind) = split(name);
    if (take("<")) {
      if (!dictionary(made.parameters, depth + 1) || !take(">"))
        return false;
    }
    made.text = begin.drop_back(rest.size()).str();
    return !name.empty();
  }

  bool atEnd() { return skipped().empty(); }

  /// "ttg.blocked" -> "ttg", "blocked".
  static std::pair<std::string, std::string> split(StringRef name) {
    auto [dialect, kind] = name.split('.');
    return {dialect.str(), (kind.empty() ? dialect : kind).str()};
  }

private:
  using Parameters = std::vector<std::pair<std::string, Parameter>>;

  StringRef skipped() {
    rest = rest.ltrim();
    return rest;
  }

  bool take(StringRef token) {
    skipped();
    return rest.consume_front(token);
  }

  StringRef word() {
    StringRef found = skipped().take_while([](char c) { return isAlnum(c) || c == '_' || c == '.'; });
    rest = rest.drop_front(found.size());
    return found;
  }

  static bool isAlnum(char c) { return llvm::isAlnum(c); }

  bool dictionary(Parameters &made, unsigned depth) {
    if (!take("{"))
      return false;
    std::map<std::string, Parameter> sorted;
    while (!take("}")) {
      StringRef key = word();
      Parameter parameter;
      if (key.empty() || !take("=") || !value(parameter, depth + 1))
        return false;
      sorted[key.str()] = std::move(parameter);
      take(",");
    }
    made.assign(sorted.begin(), sorted.end());
    return true;
  }

  bool value(Parameter &made, unsigned depth) {
    if (depth > deepestNesting)
      return false;
    if (skipped().starts_with("#")) {
      auto nested = std::make_shared<Encoding>();
      if (!encoding(*nested, depth))
        return false;
      made.kind = Parameter::Nested;
      made.encoding = std::move(nested);
      return true;
    }
    if (rest.starts_with("{")) {
      // Nothing is read of a dictionary; that two are the same can be told by their texts.
      StringRef begin = rest;
      Parameters inner;
      if (!dictionary(inner, depth))
        return false;
      made.word = begin.drop_back(rest.size()).str();
      return true;
    }
    if (take("[")) {
      made.kind = Parameter::List;
      while (!take("]")) {
        if (!value(made.items.emplace_back(), depth + 1))
          return false;
        take(",");
      }
      return true;
    }
    if (take("\"")) {
      made.word = rest.take_until([](char c) { return c == '"'; }).str();
      rest = rest.drop_front(made.word.size());
      return take("\"");
    }
    bool negative = take("-");
    StringRef found = word();
    if (found.empty())
      return false;
    if (!found.getAsInteger(10, made.number)) {
      made.kind = Parameter::Number;
      made.number = negative ? -made.number : made.number;
    } else if (found == "true" || found == "false") {
      made.kind = Parameter::Number;
      made.number = found == "true";
    } else
      made.word = found.str();
    return true;
  }

  StringRef rest;
};

} // namespace

bool Parameter::operator==(const Parameter &other) const {
  if (kind != other.kind)
    return false;
  switch (kind) {
  case Number:
    return number == other.number;
  case Word:
    return word == other.word;
  case List:
    return items == other.items;
  case Nested:
    return encoding->dialect == other.encoding->dialect && encoding->sameLayout(*other.encoding);
  }
  return false;
}

std::optional<Encoding> xesmith::parseEncoding(StringRef text) {
  if (!text.starts_with("#"))
    return std::nullopt;
  Encoding made;
  EncodingParser parser(text);
  if (!parser.encoding(made, 0) || !parser.atEnd()) {
    made = Encoding();
    StringRef name =
        text.drop_front().take_while([](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
    std::tie(made.dialect, made.kind) = EncodingParser::split(name);
  }
  made.text = text.str();
  return made;
}

const Parameter *Encoding::find(StringRef name) const {
  for (const auto &[key, value] : parameters)
    if (key == name)
      return &value;
  return nullptr;
}

int64_t Encoding::integer(StringRef name, int64_t otherwise) const {
  const Parameter *found = find(name);
  return found && found->kind == Parameter::Number ? found->number : otherwise;
}

static SmallVector<int64_t> numbersIn(const Parameter *list) {
  SmallVector<int64_t> numbers;
  if (list && list->kind == Parameter::List)
    for (const Parameter &item : list->items)
      if (item.kind == Parameter::Number)
        numbers.push_back(item.number);
  return numbers;
}

SmallVector<int64_t> Encoding::integers(StringRef name) const { return numbersIn(find(name)); }

const Encoding *Encoding::parent() const {
  const Parameter *found = find("parent");
  return found && found->kind == Parameter::Nested ? found->encoding.get() : nullptr;
}

std::string Encoding::shortText() const {
  std::string outer = parent() ? parent()->shortText() : "?";
  if (kind == "dot_op")
    return "dot operand " + std::to_string(integer("opIdx")) + " of " + outer;
  if (kind == "slice")
    return "slice of " + outer;
  return kind;
}

//===----------------------------------------------------------------------===//
// What layouts imply
//===----------------------------------------------------------------------===//

/// The dimension that a slice lacks, or nullopt where it names none of its parent's.
static std::optional<unsigned> slicedDimension(const Encoding &slice, unsigned rank) {
  int64_t dimension = slice.integer("dim");
  return slice.kind == "slice" && slice.parent() && dimension >= 0 && dimension <= int64_t(rank)
             ? std::optional<unsigned>(dimension)
             : std::nullopt;
}

static Shape without(ArrayRef<int64_t> numbers, unsigned dimension) {
  Shape made(numbers);
  made.erase(made.begin() + dimension);
  return made;
}

static Shape withOne(ArrayRef<int64_t> shape, unsigned dimension) {
  Shape made(shape);
  made.insert(made.begin() + dimension, 1);
  return made;
}

SmallVector<int64_t> xesmith::dimensionOrder(const Encoding &encoding, unsigned rank) {
  SmallVector<int64_t> stated = encoding.integers("order");
  SmallVector<int64_t> rowMajor;
  for (unsigned dimension = 0; dimension < rank; ++dimension)
    rowMajor.insert(rowMajor.begin(), dimension);
  if (stated.size() == rank) {
    SmallVector<int64_t> sorted = stated;
    llvm::sort(sorted);
    std::reverse(sorted.begin(), sorted.end());
    return sorted == rowMajor ? stated : rowMajor; // else it is no order
  }
  if (std::optional<unsigned> dim = slicedDimension(encoding, rank)) {
    SmallVector<int64_t> made;
    for (int64_t dimension : dimensionOrder(*encoding.parent(), rank + 1))
      if (dimension != *dim)
        made.push_back(dimension - (dimension > *dim));
    return made;
  }
  return rowMajor;
}

std::optional<Shape> xesmith::tileOf(const Encoding &encoding, ArrayRef<int64_t> shape) {
  size_t rank = shape.size();
  auto multiplied = [&](ArrayRef<SmallVector<int64_t>> parts) -> std::optional<Shape> {
    Shape made(rank, 1);
    for (const SmallVector<int64_t> &part : parts) {
      if (part.size() != rank)
        return std::nullopt;
      for (auto [size, factor] : llvm::zip_equal(made, part))
        if (__builtin_mul_overflow(size, factor, &size))
          return std::nullopt;
    }
    return made;
  };
  if (encoding.kind == "blocked")
    return multiplied({encoding.integers("sizePerThread"), encoding.integers("threadsPerWarp"),
                       encoding.integers("warpsPerCTA")});
  if (encoding.kind == "linear")
    return Shape(shape);
  const Encoding *parent = encoding.parent();
  if (encoding.isDpas() || encoding.isDpasOperand()) {
    bool result = encoding.isDpas(), first = encoding.integer("opIdx") == 0;
    const Encoding &dpas = result ? encoding : *parent;
    Shape block = dpas.integers(result ? "C" : first ? "A" : "B");
    Shape warps = dpas.integers("warpsPerCTA");
    if (block.size() < 2 || warps.size() != rank || rank < 2)
      return std::nullopt;
    block.erase(block.begin(), block.end() - 2);
    block.insert(block.begin(), rank - 2, 1);
    // Warps along K hold the same of an operand.
    if (!result)
      warps[first ? rank - 1 : rank - 2] = 1;
    return multiplied({block, warps});
  }
  if (std::optional<unsigned> dim = slicedDimension(encoding, rank))
    if (std::optional<Shape> tile = tileOf(*parent, withOne(shape, *dim)))
      return without(*tile, *dim);
  return std::nullopt;
}

namespace {

/// Base i of a part is the coordinate that its i-th bit adds, over GF(2); a base of zeros means
/// that threads hold the same element. Registers compare as a set, lanes and warps as they are.
struct Bases {
  std::vector<Shape> registers, lanes, warps;
  bool operator==(const Bases &other) const {
    return registers == other.registers && lanes == other.lanes && warps == other.warps;
  }
};

bool isZero(const Shape &base) {
  return llvm::all_of(base, [](int64_t coordinate) { return coordinate == 0; });
}

/// The bases that a linear layout states.
std::optional<Bases> statedBases(const Encoding &encoding, unsigned rank) {
  Bases made;
  for (auto [name, part] : {std::pair("register", &made.registers), std::pair("lane", &made.lanes),
                            std::pair("warp", &made.warps)}) {
    const Parameter *stated = encoding.find(name);
    if (!stated || stated->kind != Parameter::List)
      return std::nullopt;
    for (const Parameter &row : stated->items) {
      Shape base = numbersIn(&row);
      if (base.size() != rank)
        return std::nullopt;
      if (part != &made.registers || !isZero(base))
        part->push_back(base);
    }
  }
  return made;
}

/// Of a blocked or linear layout, or a slice of one.
std::optional<Bases> ownership(const Encoding &encoding, ArrayRef<int64_t> shape) {
  unsigned rank = shape.size();
  if (std::optional<unsigned> dim = slicedDimension(encoding, rank)) {
    std::optional<Bases> made = ownership(*encoding.parent(), withOne(shape, *dim));
    if (!made)
      return std::nullopt;
    for (std::vector<Shape> *part : {&made->registers, &made->lanes, &made->warps})
      for (Shape &base : *part)
        base = without(base, *dim);
    std::vector<Shape> &registers = made->registers;
    llvm::erase_if(registers, isZero);
    llvm::sort(registers);
    registers.erase(std::unique(registers.begin(), registers.end()), registers.end());
    return made;
  }
  if (encoding.kind == "linear") {
    std::optional<Bases> made = statedBases(encoding, rank);
    if (made)
      llvm::sort(made->registers);
    return made;
  }
  if (encoding.kind != "blocked")
    return std::nullopt;
  Bases made;
  SmallVector<int64_t> order = dimensionOrder(encoding, rank);
  Shape reached(rank, 1);
  auto extend = [&](std::vector<Shape> &part, unsigned dimension, int64_t size) {
    for (int64_t step = 1; step < size && step < (int64_t(1) << 40); step *= 2) {
      Shape base(rank, 0);
      if (reached[dimension] < shape[dimension]) { // beyond the tensor threads hold copies
        base[dimension] = reached[dimension];
        reached[dimension] *= 2;
      }
      if (&part != &made.registers || !isZero(base))
        part.push_back(base);
    }
  };
  for (auto [name, part] :
       {std::pair("sizePerThread", &made.registers), std::pair("threadsPerWarp", &made.lanes),
        std::pair("warpsPerCTA", &made.warps)}) {
    SmallVector<int64_t> sizes = encoding.integers(name);
    if (sizes.size() != rank)
      return std::nullopt;
    for (int64_t dimension : order)
      extend(*part, dimension, sizes[dimension]);
  }
  for (int64_t dimension : order)
    extend(made.registers, dimension, shape[dimension] / reached[dimension]);
  llvm::sort(made.registers);
  return made;
}

} // namespace

std::optional<int64_t> xesmith::contiguousPerThread(const Encoding &encoding, unsigned rank) {
  if (!rank)
    return std::nullopt;
  int64_t fastest = dimensionOrder(encoding, rank)[0];
  if (encoding.kind == "blocked") {
    SmallVector<int64_t> sizes = encoding.integers("sizePerThread");
    return sizes.size() == rank ? std::optional(sizes[fastest]) : std::nullopt;
  }
  if (std::optional<unsigned> dim = slicedDimension(encoding, rank)) {
    SmallVector<int64_t> sizes = encoding.parent()->integers("sizePerThread");
    return sizes.size() == rank + 1 ? std::optional(without(sizes, *dim)[fastest]) : std::nullopt;
  }
  if (encoding.isDpas() || encoding.isDpasOperand())
    return 1;
  if (encoding.kind != "linear")
    return std::nullopt;
  std::optional<Bases> bases = statedBases(encoding, rank);
  if (!bases)
    return std::nullopt;
  int64_t count = 1;
  for (const Shape &base : bases->registers) {
    Shape next(rank, 0);
    next[fastest] = count;
    if (base != next)
      break;
    count *= 2;
  }
  return count;
}

/// The first operand of a DPAS that the same DPAS computed, with no warps side by side.
static bool isDpasShortcut(const Encoding &source, const Encoding &destination) {
  return source.isDpas() && destination.isDpasOperand() && destination.integer("opIdx") == 0 &&
         destination.parent()->parameters == source.parameters &&
         !source.integers("warpsPerCTA").empty() && source.integers("warpsPerCTA").back() == 1;
}

std::optional<int64_t> xesmith::conversionSlmBytes(const Encoding &source,
                                                   const Encoding &destination,
                                                   ArrayRef<int64_t> shape, unsigned elementBits) {
  if (source.sameLayout(destination) || isDpasShortcut(source, destination))
    return 0;
  std::optional<Bases> owner = ownership(source, shape);
  if (owner && owner == ownership(destination, shape))
    return 0;
  unsigned rank = shape.size();
  std::optional<Shape> from = tileOf(source, shape), to = tileOf(destination, shape);
  std::optional<int64_t> fromVector = contiguousPerThread(source, rank);
  std::optional<int64_t> toVector = contiguousPerThread(destination, rank);
  if (!rank || !from || !to || !fromVector || !toVector)
    return std::nullopt;
  Shape extent;
  for (auto [size, a, b] : llvm::zip_equal(shape, *from, *to))
    extent.push_back(std::max(std::min(size, a), std::min(size, b)));
  int64_t fastest = dimensionOrder(destination, rank)[0];
  if (rank > 1) {
    bool alike = dimensionOrder(source, rank)[0] == fastest;
    extent[fastest] += std::max(alike ? *fromVector : 1, *toVector);
  }
  int64_t bytes = std::max(elementBits, 8u); // predicates go through memory as bytes
  for (int64_t size : extent)
    if (__builtin_mul_overflow(bytes, size, &bytes))
      return std::nullopt;
  return bytes / 8;
}
