//===- Evidence.cpp - What a kernel's IR states, for one launch -----------===//

#include "XeSmith/Findings.h"
#include "XeSmith/Kernel.h"
#include "XeSmith/Launch.h"
#include "XeSmith/Passes.h"

#include "llvm/ADT/StringMap.h"
#include <map>

namespace mlir::xesmith {
#define GEN_PASS_DEF_EVIDENCE
#include "XeSmith/Passes.h.inc"

namespace {

namespace json = llvm::json;

class Evidence : public impl::EvidenceBase<Evidence> {
public:
  using EvidenceBase::EvidenceBase;
  void runOnOperation() override;
};

json::Value number(std::optional<int64_t> value) {
  return value ? json::Value(*value) : json::Value(nullptr);
}

json::Value number(std::optional<unsigned> value) {
  return value ? json::Value(int64_t(*value)) : json::Value(nullptr);
}

json::Value real(std::optional<double> value) {
  return value ? json::Value(*value) : json::Value(nullptr);
}

std::string utf8(StringRef text) { return json::isUTF8(text) ? text.str() : json::fixUTF8(text); }

/// null for "".
json::Value words(StringRef text) {
  return text.empty() ? json::Value(nullptr) : json::Value(utf8(text));
}

json::Object site(Operation *op) {
  json::Object made;
  addLocation(made, op->getLoc());
  return made;
}

json::Array extents(ArrayRef<int64_t> shape) {
  json::Array made;
  for (int64_t extent : shape)
    made.push_back(extent < 0 ? 0 : extent); // not known
  return made;
}

/// One site a line, in order.
json::Array distinctSites(ArrayRef<Operation *> ops) {
  std::map<std::pair<std::string, int64_t>, json::Object> found;
  for (Operation *op : ops) {
    json::Object at = site(op);
    if (std::optional<int64_t> line = at.getInteger("line"))
      found[{at.getString("file").value_or("").str(), *line}] = std::move(at);
  }
  json::Array made;
  for (auto &[line, at] : found)
    made.push_back(std::move(at));
  return made;
}

class Reader {
public:
  Reader(Kernel &kernel, std::map<unsigned, int64_t> alignments)
      : kernel(kernel), alignments(std::move(alignments)) {}

  LogicalResult check();
  json::Object read();

private:
  StringRef findDialect();
  json::Value dot(Operation *op);
  json::Value access(Operation *op);
  json::Value surface(Operation *access, Operation *maker);
  json::Value whyNotBlockIO(Operation *access);
  json::Value loop(unsigned index);
  json::Object counts();
  json::Array programGroups();
  json::Value conversion(Operation *op);
  void layouts(json::Object &made);

  Kernel &kernel;
  std::map<unsigned, int64_t> alignments; // bytes, by argument
  std::string dialect;
};

/// An operation of which what it must have is missing: nothing is guessed then.
LogicalResult Reader::check() {
  for (Operation *op : kernel.operations) {
    bool moves = isLoad(op) || isStore(op) || isPrefetch(op) || isAtomic(op);
    bool malformed = moves && !op->getNumOperands();
    malformed |= isDot(op) && !dotShape(op);
    StringRef name = op->getName().getStringRef();
    if (name == "ttg.convert_layout" || name == "ttg.local_alloc")
      malformed |= op->getNumResults() != 1 || (name == "ttg.convert_layout" &&
                                                op->getNumOperands() != 1);
    if (malformed)
      return op->emitError("malformed ") << name;
  }
  return success();
}

StringRef Reader::findDialect() {
  for (StringRef name : {"triton_intel_gpu", "ttig"}) {
    std::string prefix = (name + ".").str();
    for (NamedAttribute attribute : kernel.module->getAttrs())
      if (attribute.getName().getValue().starts_with(prefix))
        return name;
    for (Operation *op : kernel.operations) {
      if (op->getName().getStringRef().starts_with(prefix))
        return name;
      for (Value result : op->getResults())
        if (StringRef(kernel.view(result).encoding).starts_with("#" + prefix))
          return name;
    }
  }
  return "none";
}

json::Value Reader::dot(Operation *op) {
  DotShape shape = *dotShape(op);
  std::optional<Encoding> encoding =
      op->getNumResults() ? encodingOf(op->getResult(0)) : std::nullopt;
  bool onDpas = encoding && encoding->isDpas();
  json::Object made{{"site", site(op)},
                    {"m", shape.m},
                    {"n", shape.n},
                    {"k", shape.k},
                    {"batch", shape.batch},
                    {"a_type", utf8(kernel.view(op->getOperand(0)).element)},
                    {"b_type", utf8(kernel.view(op->getOperand(1)).element)},
                    {"acc_type", utf8(kernel.view(op->getOperand(2)).element)},
                    {"input_precision", inputPrecision(op)},
                    {"loop", number(kernel.loopOf(op))},
                    {"reached", kernel.reached(op)},
                    {"encoding", encoding ? words(encoding->shortText()) : nullptr}};
  if (dialect == "none")
    return made;
  made["on_dpas"] = onDpas;
  if (!onDpas) {
    std::optional<Obstacle> found = kernel.dpasObstacle(op);
    made["why_not_dpas"] =
        !hasDpas(kernel.module) ? "the compiler takes this device for one without DPAS"
        : found                 ? utf8(found->why)
                                : keptLayout(encoding);
  }
  return made;
}

json::Value Reader::whyNotBlockIO(Operation *access) {
  if (std::optional<Obstacle> found = kernel.messageObstacle(access))
    return words(found->why);
  if (!blockMaker(access->getOperand(0)))
    return "the operation that made the block pointer is not visible from here";
  if (!isStore(access))
    return "the compiler gives no reason in the IR";
  // Stores carry no mark of intent: one through a block in a layout of DPAS has no obstacle.
  std::optional<Obstacle> found = kernel.layoutObstacle(access);
  return found ? words(found->why) : nullptr;
}

json::Value Reader::access(Operation *op) {
  const TypeView moved = kernel.view(op->getOperand(0));
  std::optional<Encoding> encoding = movedEncoding(op);
  StringRef kind = accessKind(op);
  BlockArgument argument = baseArgument(op->getOperand(0));
  std::optional<StringRef> blockIO = blockIOIntent(op);
  Operation *maker = kind == "pointer" ? nullptr : blockMaker(op->getOperand(0));
  std::optional<bool> always = kernel.maskAlwaysTrue(op);
  json::Object made{{"op", accessName(op).str()},
                    {"kind", kind.str()},
                    {"site", site(op)},
                    {"shape", extents(moved.shape)},
                    {"element_type", utf8(moved.element)},
                    {"element_bits", int64_t(moved.elementBits())},
                    {"masked", isMasked(op)},
                    {"mask_always_true", always ? json::Value(*always) : json::Value(nullptr)},
                    {"loop", number(kernel.loopOf(op))},
                    {"reached", kernel.reached(op)},
                    {"argument", argument ? words(kernel.numbers.nameOf(argument)) : nullptr},
                    {"encoding", encoding ? words(encoding->text) : nullptr},
                    {"block_io", blockIO ? words(*blockIO) : nullptr},
                    {"contiguity", number(kernel.contiguity(op))},
                    {"bytes_per_access", number(kernel.bytesPerAccess(op))}};
  if (maker)
    made["surface"] = surface(op, maker);
  if (dialect == "none")
    return made;
  if (!blockIO)
    made["why_not_block_io"] = whyNotBlockIO(op);
  else if (!isPrefetch(op)) {
    std::optional<Obstacle> doubt = kernel.rankObstacle(op);
    doubt = doubt ? doubt : kernel.layoutObstacle(op);
    made["block_io_doubt"] = doubt ? words(doubt->why) : nullptr;
  }
  return made;
}

json::Value Reader::surface(Operation *access, Operation *maker) {
  json::Array shape, strides, shapeValues, strideValues;
  auto list = [&](ValueRange values, json::Array &texts, json::Array &numbers) {
    for (Value value : values) {
      texts.push_back(words(kernel.numbers.text(value)));
      std::optional<Bounds> known = kernel.numbers.known(value);
      numbers.push_back(number(known ? known->constant() : std::nullopt));
    }
  };
  list(makerSizes(maker), shape, shapeValues);
  list(makerStrides(maker), strides, strideValues);
  Value base = maker->getOperand(0);
  std::optional<int64_t> alignment;
  if (BlockArgument argument = baseArgument(access->getOperand(0)))
    if (auto given = alignments.find(argument.getArgNumber()); given != alignments.end())
      alignment = kernel.baseAlignment(base, given->second);
  return json::Object{{"shape", std::move(shape)},
                      {"strides", std::move(strides)},
                      {"shape_values", std::move(shapeValues)},
                      {"stride_values", std::move(strideValues)},
                      {"order", json::Array(integersAttribute(maker, "order"))},
                      {"base_alignment_bytes", number(alignment)},
                      {"base_moved", base.getDefiningOp() != nullptr}};
}

json::Value Reader::loop(unsigned index) {
  Operation *op = kernel.loops[index];
  std::optional<Bounds> trips = kernel.numbers.tripRange(op);
  if (trips && trips->ofType)
    trips = std::nullopt;
  return json::Object{{"index", int64_t(index)},
                      {"site", site(op)},
                      {"parent", number(kernel.loopOf(op))},
                      {"trip_count", number(trips ? trips->constant() : std::nullopt)},
                      {"trip_expression", words(kernel.numbers.tripText(op))},
                      {"reached", kernel.reached(op)},
                      {"trip_mean", real(trips ? std::optional(trips->mean()) : std::nullopt)}};
}

json::Object Reader::counts() {
  int64_t f64 = 0, i64 = 0, i64Address = 0, atomics = 0, barriers = 0, reductions = 0;
  std::map<std::string, int64_t> math;
  for (Operation *op : kernel.operations) {
    f64 += worksOnF64(op);
    if (worksOnI64(op)) {
      ++i64;
      i64Address += kernel.feedsAddress(op);
    }
    atomics += isAtomic(op);
    barriers += op->getName().getStringRef().contains("barrier");
    reductions += isReduction(op);
    if (std::string name = mathName(op); !name.empty())
      ++math[utf8(name)];
  }
  json::Object names;
  for (auto &[name, count] : math)
    names[name] = count;
  return json::Object{{"f64_operations", f64}, {"i64_operations", i64},
                      {"i64_address_operations", i64Address}, {"atomics", atomics},
                      {"barriers", barriers}, {"reductions", reductions},
                      {"math", std::move(names)}};
}

/// The programs of the grid by what they run; a grid that is too large for single programs is one
/// group, of the mean. Empty where a loop's count is unknown.
json::Array Reader::programGroups() {
  std::optional<int64_t> programs = kernel.numbers.programs();
  if (!programs)
    return {};
  std::vector<std::vector<double>> columns;
  for (Operation *loop : kernel.loops) {
    std::optional<std::vector<double>> times = kernel.iterations(loop);
    if (!times)
      return {};
    columns.push_back(std::move(*times));
  }
  Amount moved = kernel.bytesMoved();
  if (!moved.perProgram)
    return {};
  columns.push_back(*moved.perProgram);
  size_t rows = 1;
  for (const std::vector<double> &column : columns)
    rows = std::max(rows, column.size());
  std::map<std::vector<double>, int64_t> kinds;
  std::vector<double> row(columns.size());
  for (size_t program = 0; program < rows; ++program) {
    for (auto [value, column] : llvm::zip_equal(row, columns))
      value = column[column.size() == 1 ? 0 : program];
    ++kinds[row];
  }
  json::Array made;
  for (auto &[kind, count] : kinds)
    made.push_back(json::Object{
        {"programs", count * (*programs / int64_t(rows))},
        {"iterations", json::Array(ArrayRef<double>(kind).drop_back())},
        {"bytes_moved", kind.back()}});
  return made;
}

json::Value Reader::conversion(Operation *op) {
  const TypeView moved = kernel.view(op->getOperand(0));
  bool staged = op->getName().getStringRef() == "ttg.local_alloc";
  std::optional<Encoding> source = parseEncoding(moved.encoding);
  std::optional<Encoding> destination = kernel.convertedTo(op);
  return json::Object{
      {"site", site(op)},
      {"source", utf8(source->text)},
      {"destination", utf8(destination ? destination->text : kernel.view(op->getResult(0)).encoding)},
      {"shape", extents(moved.shape)},
      {"element_bits", int64_t(moved.ofPointers && !staged ? 64 : moved.elementBits())},
      {"loop", number(kernel.loopOf(op))},
      {"reached", kernel.reached(op)},
      {"slm_bytes", number(kernel.conversionBytes(op))},
      {"op", op->getName().getStringRef().str()}};
}

/// What only TTGIR tells.
void Reader::layouts(json::Object &made) {
  json::Object attributes;
  for (NamedAttribute attribute : kernel.module->getAttrs()) {
    StringRef name = attribute.getName().getValue();
    if (name.starts_with("triton_intel_gpu.") || name.starts_with("ttig.") ||
        name.starts_with("ttg.")) {
      std::string text = printed(attribute.getValue());
      if (text.size() > 1 && text.front() == '"' && text.back() == '"')
        text = text.substr(1, text.size() - 2);
      attributes[utf8(name)] = utf8(text);
    }
  }
  llvm::StringMap<int64_t> place;
  SmallVector<std::pair<std::string, int64_t>> encodings;
  json::Array conversions;
  int64_t prefetches = 0;
  for (Operation *op : kernel.operations) {
    for (Value result : op->getResults()) {
      const std::string &text = kernel.view(result).encoding;
      if (text.empty())
        continue;
      auto [found, isNew] = place.try_emplace(text, encodings.size());
      if (isNew)
        encodings.emplace_back(text, 0);
      ++encodings[found->second].second;
    }
    prefetches += isPrefetch(op);
    StringRef name = op->getName().getStringRef();
    if ((name == "ttg.convert_layout" || name == "ttg.local_alloc") && op->getNumOperands() &&
        encodingOf(op->getOperand(0)) &&
        (name == "ttg.local_alloc" || encodingOf(op->getResult(0))))
      conversions.push_back(conversion(op));
  }
  json::Object texts;
  json::Array dpas;
  for (auto &[text, count] : encodings) {
    texts[utf8(text)] = count;
    std::optional<Encoding> encoding = parseEncoding(text);
    const Encoding *current = encoding ? &*encoding : nullptr;
    while (current && !current->isDpas())
      current = current->parent();
    if (!current)
      continue;
    json::Value one = json::Object{{"repeat_count", current->integer("repeatCount")},
                                   {"systolic_depth", current->integer("systolicDepth")},
                                   {"execution_size", current->integer("executionSize")},
                                   {"ops_per_channel", current->integer("opsPerChan")},
                                   {"warps_per_cta", json::Array(current->integers("warpsPerCTA"))}};
    if (!llvm::is_contained(dpas, one))
      dpas.push_back(std::move(one));
  }
  auto target = kernel.module->getAttrOfType<StringAttr>("ttg.target");
  made["dialect"] = dialect;
  made["num_warps"] = moduleInteger(kernel.module, "ttg.num-warps", 0);
  made["threads_per_warp"] = moduleInteger(kernel.module, "ttg.threads-per-warp", 0);
  made["target"] = target ? words(target.getValue()) : nullptr;
  made["module_attributes"] = std::move(attributes);
  made["encodings"] = std::move(texts);
  made["dpas"] = std::move(dpas);
  made["prefetches"] = prefetches;
  made["layout_conversions"] = std::move(conversions);
}

json::Object Reader::read() {
  dialect = findDialect().str();
  json::Array dots, accesses, loops;
  SmallVector<Operation *> f64, i64Address;
  for (Operation *op : kernel.operations) {
    if (isDot(op))
      dots.push_back(dot(op));
    if (isLoad(op) || isStore(op) || isPrefetch(op))
      accesses.push_back(access(op));
    if (worksOnF64(op))
      f64.push_back(op);
    if (worksOnI64(op) && kernel.feedsAddress(op))
      i64Address.push_back(op);
  }
  for (unsigned index = 0; index < kernel.loops.size(); ++index)
    loops.push_back(loop(index));
  Amount flop = kernel.flop(), moved = kernel.bytesMoved();
  json::Object layout;
  layouts(layout);
  return json::Object{
      {"kernel", json::Object{{"dots", std::move(dots)},
                              {"accesses", std::move(accesses)},
                              {"loops", std::move(loops)},
                              {"counts", counts()}}},
      {"amounts", json::Object{{"f64_sites", distinctSites(f64)},
                               {"i64_address_sites", distinctSites(i64Address)},
                               {"flop_expression", words(flop.text())},
                               {"bytes_expression", words(moved.text())},
                               {"flop_per_program", real(flop.mean())},
                               {"bytes_loaded_per_program", real(kernel.bytesLoaded().mean())},
                               {"bytes_stored_per_program", real(kernel.bytesStored().mean())},
                               {"program_groups", programGroups()}}},
      {"layouts", std::move(layout)}};
}

void Evidence::runOnOperation() {
  ModuleOp module = getOperation();
  Operation *function = kernelOf(module, kernel);
  if (!function) {
    emitError(module.getLoc()) << "no function of the kernel '" << kernel << "' in the module";
    return signalPassFailure();
  }
  FailureOr<Numbers> numbers = numbersOfLaunch(function, names, values, grid, /*lenient=*/true);
  if (failed(numbers))
    return signalPassFailure();
  FailureOr<SmallVector<ArgumentValue>> given =
      argumentValues(function, *numbers, alignments, /*lenient=*/true);
  if (failed(given))
    return signalPassFailure();
  std::map<unsigned, int64_t> aligned;
  for (const ArgumentValue &one : *given)
    if (int64_t bytes; !StringRef(one.text).getAsInteger(10, bytes) && bytes > 0)
      aligned[one.argument.getArgNumber()] = bytes;
  Kernel read(function, *numbers);
  Reader reader(read, std::move(aligned));
  if (failed(reader.check()))
    return signalPassFailure();
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(reader.read());
  module->setAttr(evidenceAttribute, StringAttr::get(module.getContext(), text));
}

} // namespace
} // namespace mlir::xesmith
