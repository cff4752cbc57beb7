#include "client/plan/step_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include <nlohmann/json.hpp>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/engine/schedule.h"

namespace baton {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;
constexpr double kMostMeasured = 1e12;  // bound of each number in the file
constexpr char kHowToMeasure[] =
    "measure with: baton bench engine --model MODEL -p 64,512 -d 0,1024 -n 32 -b 1,4,16,64 --json";

// The three times of a step of chunks: for it, for its rows, for the keys that they attend to.
constexpr size_t kTerms = 3;
using Terms = std::array<double, kTerms>;

// How often each of them counts in a prefill, in the chunks that the engine makes.
Terms TermsOf(const MeasuredPrefill& prefill, int max_num_batched_tokens) {
  Terms terms = {};
  const int end = prefill.depth + prefill.tokens;
  for (int first = prefill.depth; first < end;) {
    int chunk_end = end;
    if (end - first > max_num_batched_tokens) {
      chunk_end = first + max_num_batched_tokens;
      chunk_end -= chunk_end % kChunkTokens;
    }
    StepShape shape;
    shape.AddChunk(chunk_end - first, first);
    terms[0] += 1;
    terms[1] += shape.chunk_rows;
    terms[2] += shape.chunk_keys;
    first = chunk_end;
  }
  return terms;
}

// The least squares of rows * x = 1 over the terms of `chosen` (a bit each), the others being 0:
// the normal equations by elimination. nullopt: they have no one solution.
std::optional<Terms> LeastSquares(const std::vector<Terms>& rows, unsigned chosen) {
  double equations[kTerms][kTerms + 1] = {};
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j < kTerms; ++j) {
      const bool both = (chosen >> i & 1) != 0 && (chosen >> j & 1) != 0;
      if (!both && i == j) equations[i][j] = 1;  // x = 0
      for (const Terms& row : rows) equations[i][j] += both ? row[i] * row[j] : 0;
    }
    for (const Terms& row : rows) equations[i][kTerms] += (chosen >> i & 1) != 0 ? row[i] : 0;
  }
  for (size_t i = 0; i < kTerms; ++i) {
    const double whole = equations[i][i];
    for (size_t before = 0; before < i; ++before) {
      const double factor = equations[i][before] / equations[before][before];
      for (size_t j = before; j <= kTerms; ++j) equations[i][j] -= factor * equations[before][j];
    }
    // What rounding leaves of a term that is a sum of the ones before it.
    if (equations[i][i] <= 1e-9 * whole) return std::nullopt;
  }
  Terms solution = {};
  for (size_t i = kTerms; i-- > 0;) {
    double rest = equations[i][kTerms];
    for (size_t j = i + 1; j < kTerms; ++j) rest -= equations[i][j] * solution[j];
    solution[i] = rest / equations[i][i];
  }
  return solution;
}

double SquaredError(const std::vector<Terms>& rows, const Terms& solution) {
  double sum = 0;
  for (const Terms& row : rows) {
    double error = -1;
    for (size_t i = 0; i < kTerms; ++i) error += row[i] * solution[i];
    sum += error * error;
  }
  return sum;
}

// Reads fields of a JSON object. An error names the file and the field.
class Fields {
 public:
  Fields(const nlohmann::json& object, std::string name)
      : object_(object), name_(std::move(name)) {}

  absl::Status Wrong(absl::string_view field, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("--rates: ", name_, ": ", field, " ", what, "; ", kHowToMeasure));
  }
  absl::StatusOr<double> Number(const char* field, double least) const {
    const auto found = object_.find(field);
    if (found == object_.end()) return Wrong(field, "is missing");
    if (!found->is_number() || found->get<double>() < least ||
        found->get<double>() > kMostMeasured) {
      return Wrong(field, absl::StrCat("must be a number from ", least, " to 1e12"));
    }
    return found->get<double>();
  }
  absl::StatusOr<int> Whole(const char* field, int least) const {
    BATON_ASSIGN_OR_RETURN(const double number, Number(field, least));
    if (number > 1 << 30 || number != std::floor(number)) {
      return Wrong(field, absl::StrCat("must be a whole number from ", least, " to 2^30"));
    }
    return static_cast<int>(number);
  }
  absl::StatusOr<std::string> Text(const char* field) const {
    const auto found = object_.find(field);
    if (found == object_.end() || !found->is_string()) return Wrong(field, "must be a text");
    return found->get<std::string>();
  }

 private:
  const nlohmann::json& object_;
  const std::string name_;
};

struct Measured {
  std::vector<MeasuredPrefill> prefills;
  std::vector<MeasuredDecode> decodes;
};

absl::Status ReadResult(const nlohmann::json& row, const std::string& name, Measured& measured) {
  const Fields fields(row, name);
  BATON_ASSIGN_OR_RETURN(const std::string test, fields.Text("test"));
  absl::string_view number = test;
  const bool is_prefill = absl::ConsumePrefix(&number, "pp");
  if (!is_prefill && !absl::ConsumePrefix(&number, "tg")) return absl::OkStatus();  // "gemm512"
  int length = 0;
  if (!absl::SimpleAtoi(number, &length) || length < 1 || length > 1 << 24) {
    return fields.Wrong("test", absl::StrCat("'", test, "' is neither pp nor tg with a length"));
  }
  BATON_ASSIGN_OR_RETURN(const int depth, fields.Whole("depth", 0));
  BATON_ASSIGN_OR_RETURN(const double rate, fields.Number("tokens_per_s", 1e-6));
  if (is_prefill) {
    measured.prefills.push_back({.tokens = length, .depth = depth, .seconds = length / rate});
    return absl::OkStatus();
  }
  BATON_ASSIGN_OR_RETURN(const int batch, fields.Whole("batch", 1));
  measured.decodes.push_back(
      {.batch = batch, .context = depth + (length + 1) / 2.0, .step_s = batch / rate});
  return absl::OkStatus();
}

absl::Status CheckMeasured(const Measured& measured, const Fields& fields) {
  if (measured.prefills.empty()) return fields.Wrong("results", "have no prefill (pp)");
  std::map<int, std::set<double>> contexts;
  for (const MeasuredDecode& decode : measured.decodes) {
    contexts[decode.batch].insert(decode.context);
  }
  if (contexts.size() < 2)
    return fields.Wrong("results", "have decodes (tg) for fewer than 2 batch sizes");
  for (const auto& [batch, of_batch] : contexts) {
    if (of_batch.size() >= 2) continue;
    return fields.Wrong("results",
                        absl::StrCat("have only one depth for the decodes (tg) of batch ", batch));
  }
  return absl::OkStatus();
}

}  // namespace

StepCosts::ChunkCosts FitChunks(const std::vector<MeasuredPrefill>& prefills,
                                int max_num_batched_tokens) {
  std::vector<Terms> rows;
  for (const MeasuredPrefill& prefill : prefills) {
    Terms terms = TermsOf(prefill, max_num_batched_tokens);
    for (double& term : terms) term /= prefill.seconds;
    rows.push_back(terms);
  }
  double least = 0;
  Terms best = {};
  bool any = false;
  for (const unsigned chosen : {7u, 3u, 6u, 2u}) {  // a row always takes time
    const std::optional<Terms> solution = LeastSquares(rows, chosen);
    if (!solution || *std::min_element(solution->begin(), solution->end()) < 0) continue;
    const double error = SquaredError(rows, *solution);
    if (any && error >= least) continue;
    any = true;
    least = error;
    best = *solution;
  }
  BATON_CHECK(any, "rows alone always fit");
  return {.step_s = best[0], .row_s = best[1], .key_s = best[2]};
}

std::vector<StepCosts::DecodeCosts> FitDecodes(const std::vector<MeasuredDecode>& decodes) {
  std::map<int, std::vector<MeasuredDecode>> batches;
  for (const MeasuredDecode& decode : decodes) batches[decode.batch].push_back(decode);
  std::vector<StepCosts::DecodeCosts> costs;
  for (const auto& [batch, measured] : batches) {
    const auto count = static_cast<double>(measured.size());
    double context = 0, seconds = 0, squares = 0, products = 0;
    for (const MeasuredDecode& decode : measured) {
      context += decode.context / count;
      seconds += decode.step_s / count;
    }
    for (const MeasuredDecode& decode : measured) {
      squares += (decode.context - context) * (decode.context - context);
      products += (decode.context - context) * (decode.step_s - seconds);
    }
    const double slope = squares > 0 ? std::max(products / squares, 0.0) : 0;
    // A line that would begin below zero goes through zero: more context never costs less.
    const double begin = seconds - slope * context;
    costs.push_back({.batch = batch,
                     .step_s = std::max(begin, 0.0),
                     .context_token_s = begin >= 0 ? slope : seconds / context});
  }
  return costs;
}

StepCosts::StepCosts(Facts facts, const ChunkCosts& chunks, std::vector<DecodeCosts> decodes)
    : facts_(std::move(facts)), chunks_(chunks), decodes_(std::move(decodes)) {
  BATON_CHECK(decodes_.size() >= 2, "two batches to go on from");
}

absl::StatusOr<StepCosts> StepCosts::Parse(const std::string& json, const std::string& name) {
  const nlohmann::json file = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  const Fields fields(file, name);
  if (!file.is_object()) return fields.Wrong("the file", "is not a JSON object");
  Facts facts;
  BATON_ASSIGN_OR_RETURN(facts.model, fields.Text("model"));
  BATON_ASSIGN_OR_RETURN(facts.device, fields.Text("device"));
  BATON_ASSIGN_OR_RETURN(facts.layers, fields.Whole("layers", 1));
  BATON_ASSIGN_OR_RETURN(facts.kv_bytes_per_token, fields.Whole("kv_bytes_per_token", 1));
  BATON_ASSIGN_OR_RETURN(facts.block_size, fields.Whole("block_size", 1));
  BATON_ASSIGN_OR_RETURN(facts.max_num_batched_tokens,
                         fields.Whole("max_num_batched_tokens", kChunkTokens));
  const auto results = file.find("results");
  if (results == file.end() || !results->is_array())
    return fields.Wrong("results", "must be a list");
  Measured measured;
  for (const nlohmann::json& row : *results) {
    if (!row.is_object()) return fields.Wrong("results", "must hold objects");
    BATON_RETURN_IF_ERROR(ReadResult(row, name, measured));
  }
  BATON_RETURN_IF_ERROR(CheckMeasured(measured, fields));
  const auto chunks = FitChunks(measured.prefills, facts.max_num_batched_tokens);
  return StepCosts(std::move(facts), chunks, FitDecodes(measured.decodes));
}

double StepCosts::DecodeSeconds(int batch, double mean_context) const {
  const auto at = [&](const DecodeCosts& costs) {
    return costs.step_s + costs.context_token_s * mean_context;
  };
  if (batch <= decodes_.front().batch) return at(decodes_.front());
  // The first that is not smaller; beyond the last one, the last.
  auto above = std::find_if(decodes_.begin() + 1, decodes_.end() - 1,
                            [batch](const DecodeCosts& costs) { return costs.batch >= batch; });
  const double low = at(*(above - 1)), high = at(*above);
  const double part = static_cast<double>(batch - (above - 1)->batch) /
                      static_cast<double>(above->batch - (above - 1)->batch);
  // Beyond the last batch it does not sink, whatever the noise of the last two was.
  return part > 1 ? std::max(low + part * (high - low), high) : low + part * (high - low);
}

int64_t StepCosts::StepNanoseconds(const StepShape& shape) const {
  double seconds = 0;
  if (shape.decodes > 0) {
    seconds = DecodeSeconds(shape.decodes, static_cast<double>(shape.decode_context) /
                                               static_cast<double>(shape.decodes));
  } else {
    seconds = chunks_.step_s;
  }
  seconds += chunks_.row_s * shape.chunk_rows + chunks_.key_s * shape.chunk_keys;
  return std::max<int64_t>(1, std::llround(seconds * kNanosecondsPerSecond));
}

}  // namespace baton
