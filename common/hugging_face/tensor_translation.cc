#include "common/hugging_face/tensor_translation.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/hugging_face/tensor_rows.h"

namespace baton {
namespace {

constexpr char kScaleEnding[] = "_scale_inv";
constexpr size_t kMaxTheirDimensions = 3;

// A name with '#' for its numbers, and the numbers.
struct Pattern {
  std::string text;
  std::vector<uint32_t> numbers;
};

Pattern PatternOf(absl::string_view name) {
  std::vector<std::string> parts = absl::StrSplit(name, '.');
  Pattern pattern;
  for (std::string& part : parts) {
    uint32_t number = 0;
    // Only as it is written by everyone, so that one tensor has one name.
    if (!absl::SimpleAtoi(part, &number) || absl::StrCat(number) != part) continue;
    pattern.numbers.push_back(number);
    part = "#";
  }
  pattern.text = absl::StrJoin(parts, ".");
  return pattern;
}

// The name that the tensor has in a model of text alone; nothing for one that such a model lacks.
std::optional<std::string> NameInText(absl::string_view name) {
  for (const char* other : {"vision_tower.", "model.vision_tower.", "multi_modal_projector.",
                            "model.multi_modal_projector."}) {
    if (absl::StartsWith(name, other)) return std::nullopt;
  }
  if (absl::ConsumePrefix(&name, "model.language_model.")) return absl::StrCat("model.", name);
  absl::ConsumePrefix(&name, "language_model.");
  return std::string(name);
}

class Translator {
 public:
  Translator(const ModelType& type, const TranslatedKeys& keys, const TranslationOptions& options,
             const FolderTensors& tensors)
      : type_(type), keys_(keys), options_(options), folder_(tensors) {}

  absl::StatusOr<std::vector<ModelTensor>> Translate() {
    for (const auto& [name, entry] : folder_) BATON_RETURN_IF_ERROR(Take(name, entry));
    std::vector<ModelTensor> tensors;
    for (auto& [name, made] : made_) {
      BATON_ASSIGN_OR_RETURN(ModelTensor tensor, Finish(name, made));
      tensors.push_back(std::move(tensor));
    }
    AddVector("rope_freqs.weight", keys_.rope_freqs, tensors);
    AddVector("rope_factors_long.weight", keys_.rope_factors_long, tensors);
    AddVector("rope_factors_short.weight", keys_.rope_factors_short, tensors);
    return tensors;
  }

 private:
  // A tensor of GGUF while its parts are collected.
  struct Made {
    std::map<uint32_t, TensorPlan> parts;  // one, or one for each expert
    std::vector<uint64_t> shape;           // shape of a part, outermost dimension first
    bool stacked = false;
  };

  absl::Status Error(absl::StatusCode code, const std::string& name, const FolderTensor& entry,
                     absl::string_view what) const {
    return absl::Status(code, absl::StrCat(options_.folder, "/", entry.file, ": tensor '",
                                           LogSafe(name), "' ", what));
  }

  // The rule for a pattern; null if there is none.
  const TensorName* FindRule(const std::string& pattern) const {
    for (const absl::Span<const TensorName> names : {type_.names, CommonNames()}) {
      for (const TensorName& name : names) {
        if (pattern == name.theirs) return &name;
      }
    }
    return nullptr;
  }

  absl::Status Take(const std::string& name, const FolderTensor& entry);
  absl::StatusOr<RowSource> SourceOf(const std::string& name, const FolderTensor& entry) const;
  absl::Status Add(const std::string& ours, uint32_t part, bool stacked, TensorPlan plan,
                   std::vector<uint64_t> shape, const std::string& name, const FolderTensor& entry);
  absl::Status AddGateAndUp(const TensorName& rule, uint32_t layer, const RowSource& source,
                            const std::string& name, const FolderTensor& entry);
  absl::StatusOr<RowSource> Mxfp4Source(const std::string& name, const FolderTensor& entry) const;
  // Adds the rows of all experts, or for `rule.up` every second one of them here and there.
  // `shape`: [experts, rows, width] or [experts, rows] of `source`, whose rows then have one value.
  absl::Status AddExperts(const TensorName& rule, uint32_t layer, const RowSource& source,
                          std::vector<uint64_t> shape, const std::string& name,
                          const FolderTensor& entry);
  absl::StatusOr<ModelTensor> Finish(const std::string& name, Made& made) const;
  static void AddVector(const std::string& name, const std::vector<float>& values,
                        std::vector<ModelTensor>& tensors);

  const ModelType& type_;
  const TranslatedKeys& keys_;
  const TranslationOptions& options_;
  const FolderTensors& folder_;
  std::map<std::string, Made> made_;
};

absl::StatusOr<RowSource> Translator::SourceOf(const std::string& name,
                                               const FolderTensor& entry) const {
  const SafeTensor& tensor = entry.tensor;
  const auto error = [&](absl::StatusCode code, absl::string_view what) {
    return Error(code, name, entry, what);
  };
  if (tensor.type == SafeType::kOther || tensor.type == SafeType::kU8) {
    return error(absl::StatusCode::kUnimplemented,
                 absl::StrCat("has dtype ", tensor.dtype,
                              "; supported are BF16, F16, F32 and F8_E4M3 with scales of blocks"));
  }
  if (tensor.shape.empty() || tensor.shape.size() > kMaxTheirDimensions) {
    return error(
        absl::StatusCode::kInvalidArgument,
        absl::StrCat("has ", tensor.shape.size(), " dimensions, not 1 to ", kMaxTheirDimensions));
  }
  RowSource source = {.data = tensor.data,
                      .type = tensor.type,
                      .columns = tensor.shape.back(),
                      .scales = {},
                      .scale_type = SafeType::kF32};
  if (tensor.type != SafeType::kF8E4m3) return source;
  const auto scales = folder_.find(name + kScaleEnding);
  const auto blocks = [](uint64_t values) { return (values + kScaleBlock - 1) / kScaleBlock; };
  if (!options_.scaled_e4m3 || tensor.shape.size() != 2 || scales == folder_.end() ||
      scales->second.tensor.shape !=
          std::vector<uint64_t>{blocks(tensor.shape[0]), blocks(tensor.shape[1])} ||
      (scales->second.tensor.type != SafeType::kF32 &&
       scales->second.tensor.type != SafeType::kBf16)) {
    return error(absl::StatusCode::kUnimplemented,
                 "has dtype F8_E4M3, but no fitting weight_scale_inv in F32 or BF16 with a scale "
                 "for each 128 x 128 values, which alone is supported");
  }
  source.scales = scales->second.tensor.data;
  source.scale_type = scales->second.tensor.type;
  return source;
}

absl::Status Translator::Add(const std::string& ours, uint32_t part, bool stacked, TensorPlan plan,
                             std::vector<uint64_t> shape, const std::string& name,
                             const FolderTensor& entry) {
  Made& made = made_[ours];
  if (made.parts.empty()) {
    made.shape = std::move(shape);
    made.stacked = stacked;
  } else if (!stacked) {
    return Error(absl::StatusCode::kInvalidArgument, name, entry, "is there under two names");
  } else if (made.shape != shape ||
             made.parts.begin()->second.runs[0].source.type != plan.runs[0].source.type) {
    return Error(absl::StatusCode::kInvalidArgument, name, entry,
                 "has another shape or dtype than that of the first expert");
  }
  if (!made.parts.emplace(part, std::move(plan)).second) {
    return Error(absl::StatusCode::kInvalidArgument, name, entry, "is there under two names");
  }
  return absl::OkStatus();
}

absl::Status Translator::AddGateAndUp(const TensorName& rule, uint32_t layer,
                                      const RowSource& source, const std::string& name,
                                      const FolderTensor& entry) {
  std::vector<uint64_t> shape = entry.tensor.shape;
  if (shape.size() < 2 || shape[shape.size() - 2] % 2 != 0 || !source.scales.empty()) {
    return Error(absl::StatusCode::kInvalidArgument, name, entry,
                 "must have an even number of rows, first the gate's, then as many others");
  }
  uint64_t& rows = shape[shape.size() - 2];
  rows /= 2;
  const uint64_t matrices = shape.size() == 3 ? shape[0] : 1;
  TensorPlan gate;
  TensorPlan up;
  for (uint64_t matrix = 0; matrix < matrices; ++matrix) {
    gate.runs.push_back({.source = source, .first = 2 * matrix * rows, .count = rows});
    up.runs.push_back({.source = source, .first = (2 * matrix + 1) * rows, .count = rows});
  }
  const std::string number = absl::StrCat(layer);
  BATON_RETURN_IF_ERROR(Add(absl::StrReplaceAll(rule.ours, {{"#", number}}), 0, false,
                            std::move(gate), shape, name, entry));
  return Add(absl::StrReplaceAll(rule.up, {{"#", number}}), 0, false, std::move(up), shape, name,
             entry);
}

absl::StatusOr<RowSource> Translator::Mxfp4Source(const std::string& name,
                                                  const FolderTensor& entry) const {
  constexpr char kBlocks[] = "_blocks";
  const std::vector<uint64_t>& shape = entry.tensor.shape;
  const auto scales = folder_.find(absl::StrCat(
      absl::string_view(name).substr(0, name.size() - std::strlen(kBlocks)), "_scales"));
  if (entry.tensor.type != SafeType::kU8 || shape.size() != 4 || shape[3] != kMxfp4Block / 2 ||
      scales == folder_.end() || scales->second.tensor.type != SafeType::kU8 ||
      scales->second.tensor.shape != std::vector<uint64_t>(shape.begin(), shape.end() - 1)) {
    return Error(absl::StatusCode::kInvalidArgument, name, entry,
                 "is not of dtype U8 with dimensions [experts, rows, blocks, 16] and, beside it, "
                 "_scales of dtype U8 with [experts, rows, blocks]; fetch the folder again");
  }
  return RowSource{.data = entry.tensor.data,
                   .type = SafeType::kU8,
                   .columns = shape[2] * kMxfp4Block,
                   .scales = scales->second.tensor.data,
                   .scale_type = SafeType::kU8};
}

absl::Status Translator::AddExperts(const TensorName& rule, uint32_t layer, const RowSource& source,
                                    std::vector<uint64_t> shape, const std::string& name,
                                    const FolderTensor& entry) {
  const auto add = [&](const char* ours, uint64_t first, uint64_t step) {
    TensorPlan plan;
    plan.runs.push_back(
        {.source = source, .first = first, .count = shape[0] * shape[1], .step = step});
    return Add(absl::StrReplaceAll(ours, {{"#", absl::StrCat(layer)}}), 0, false, std::move(plan),
               shape, name, entry);
  };
  if (rule.up == nullptr) return add(rule.ours, 0, 1);
  if (shape[1] % 2 != 0) {
    return Error(absl::StatusCode::kInvalidArgument, name, entry,
                 "must have an even number of rows, the gate's and the others in turns");
  }
  // An expert's rows are even in number, so the turns go on from one to the next.
  shape[1] /= 2;
  BATON_RETURN_IF_ERROR(add(rule.ours, 0, 2));
  return add(rule.up, 1, 2);
}

absl::Status Translator::Take(const std::string& name, const FolderTensor& entry) {
  const std::optional<std::string> plain = options_.multimodal ? NameInText(name) : name;
  if (!plain.has_value()) return absl::OkStatus();
  if (options_.scaled_e4m3 && absl::EndsWith(name, kScaleEnding)) {
    const auto scaled = folder_.find(name.substr(0, name.size() - std::strlen(kScaleEnding)));
    if (scaled != folder_.end() && scaled->second.tensor.type == SafeType::kF8E4m3) {
      return absl::OkStatus();  // taken with what it scales
    }
  }
  const Pattern pattern = PatternOf(*plain);
  const TensorName* rule = FindRule(pattern.text);
  if (rule == nullptr) {
    return Error(absl::StatusCode::kUnimplemented, name, entry,
                 absl::StrCat("is not part of the supported models of type ", type_.model_type));
  }
  const bool head = absl::string_view(rule->ours) == "output.weight";
  if (rule->rule == TensorRule::kDropped || (head && options_.tied)) return absl::OkStatus();
  const uint32_t layer = pattern.numbers.empty() ? 0 : pattern.numbers[0];
  if (rule->rule == TensorRule::kMxfp4) {
    BATON_ASSIGN_OR_RETURN(const RowSource source, Mxfp4Source(name, entry));
    return AddExperts(*rule, layer, source,
                      {entry.tensor.shape[0], entry.tensor.shape[1], source.columns}, name, entry);
  }
  BATON_ASSIGN_OR_RETURN(RowSource source, SourceOf(name, entry));
  if (rule->rule == TensorRule::kGateUpInTurns) {
    if (entry.tensor.shape.size() != 2 || !source.scales.empty()) {
      return Error(absl::StatusCode::kInvalidArgument, name, entry, "is not a matrix of floats");
    }
    source.columns = 1;
    return AddExperts(*rule, layer, source, entry.tensor.shape, name, entry);
  }
  if (rule->rule == TensorRule::kGateAndUp) {
    return AddGateAndUp(*rule, layer, source, name, entry);
  }
  const std::vector<uint64_t>& shape = entry.tensor.shape;
  TensorPlan plan;
  plan.runs.push_back(
      {.source = source, .first = 0, .count = entry.tensor.elements() / shape.back()});
  const bool rotated = rule->rule == TensorRule::kQueryRows || rule->rule == TensorRule::kKeyRows;
  if (rotated && type_.rotates_pairs) {
    const uint64_t heads = rule->rule == TensorRule::kQueryRows ? keys_.heads : keys_.kv_heads;
    if (shape[0] != heads * keys_.head_dim) {
      return Error(absl::StatusCode::kInvalidArgument, name, entry,
                   absl::StrCat("has ", shape[0], " rows, not those of ", heads, " heads of ",
                                keys_.head_dim));
    }
    plan.pair_head_rows = keys_.head_dim;
    if (shape.size() == 1) {  // a bias: rows of one value
      plan.runs[0].source.columns = 1;
      plan.runs[0].count = shape[0];
    }
  }
  plan.plus_one = rule->rule == TensorRule::kNorm && type_.norms_plus_one;
  if (plan.plus_one && shape.size() != 1) {
    return Error(absl::StatusCode::kInvalidArgument, name, entry, "is not a vector");
  }
  const bool expert = rule->rule == TensorRule::kExpert;
  return Add(absl::StrReplaceAll(rule->ours, {{"#", absl::StrCat(layer)}}),
             expert ? pattern.numbers.back() : 0, expert, std::move(plan), shape, name, entry);
}

absl::StatusOr<ModelTensor> Translator::Finish(const std::string& name, Made& made) const {
  TensorPlan plan = std::move(made.parts.begin()->second);
  std::vector<uint64_t> dims(made.shape.rbegin(), made.shape.rend());
  if (made.stacked) {
    // Their numbers are unlike and ascend, so the last one shows whether all are there.
    if (made.parts.rbegin()->first + 1 != made.parts.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          options_.folder, ": expert ", made.parts.size() - 1,
          " or a lower-numbered one is missing from ", name, "; fetch the folder again"));
    }
    dims.push_back(made.parts.size());
    for (auto part = std::next(made.parts.begin()); part != made.parts.end(); ++part) {
      plan.runs.push_back(part->second.runs[0]);
    }
  }
  return PlannedTensor(name, std::move(dims), std::move(plan));
}

void Translator::AddVector(const std::string& name, const std::vector<float>& values,
                           std::vector<ModelTensor>& tensors) {
  if (values.empty()) return;
  tensors.push_back({.name = name,
                     .type = GgmlType::kF32,
                     .dims = {values.size()},
                     .data = {},
                     .maker = {.make =
                                   [values](absl::Span<uint8_t> out) {
                                     std::memcpy(out.data(), values.data(), out.size());
                                   },
                               .sources = {}}});
}

}  // namespace

absl::StatusOr<std::vector<ModelTensor>> TranslateTensors(const FolderTensors& tensors,
                                                          const ModelType& type,
                                                          const TranslatedKeys& keys,
                                                          const TranslationOptions& options) {
  return Translator(type, keys, options, tensors).Translate();
}

}  // namespace baton
