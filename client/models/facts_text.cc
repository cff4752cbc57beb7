#include "client/models/facts_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include <nlohmann/json.hpp>

#include "common/base/kv_type_name.h"
#include "common/base/log.h"
#include "common/base/terminal_text.h"

namespace baton {
namespace {

// "1.34 G" of 1,340,000,000; "-" of 0.
std::string Short(uint64_t number, const char* unit) {
  if (number == 0) return "-";
  const auto value = static_cast<double>(number);
  if (value < 1e3) return absl::StrCat(number, *unit == '\0' ? "" : " ", unit);
  if (value < 1e6) return absl::StrFormat("%.1f k%s", value * 1e-3, unit);
  return value < 1e9 ? absl::StrFormat("%.1f M%s", value * 1e-6, unit)
                     : absl::StrFormat("%.2f G%s", value * 1e-9, unit);
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : LogSafe(text); }

std::string TypesText(const ModelFacts& facts) {
  const std::string text =
      absl::StrJoin(facts.weight_types, "+", [](std::string* out, const WeightTypeBytes& of_type) {
        absl::StrAppend(out, GgmlTypeName(of_type.type));
      });
  return OrDash(text);
}

using Row = std::vector<std::string>;

Row RowOf(const ModelFacts& facts) {
  const bool kv = !facts.kv.empty();
  return {LogSafe(facts.path),
          OrDash(facts.name),
          OrDash(facts.architecture),
          Short(facts.parameters, ""),
          TypesText(facts),
          Short(facts.file_bytes, "B"),
          Short(facts.weight_bytes, "B"),
          kv ? Short(facts.kv[0].bytes_per_token, "B") : "-",
          kv ? absl::StrCat(Short(facts.kv[0].bytes, "B"), " for ", facts.max_model_len) : "-",
          facts.context_length > 0 ? absl::StrCat(facts.context_length) : "-",
          OrDash(facts.tokenizer),
          facts.chat_template ? "yes" : "no",
          facts.served.ok() ? "yes" : "no"};
}

}  // namespace

std::string FactsTable(absl::Span<const ModelFacts> models) {
  std::vector<Row> rows = {{"PATH", "NAME", "ARCHITECTURE", "PARAMETERS", "WEIGHTS", "ON DISK",
                            "IN MEMORY", "KV/TOKEN", "KV CACHE", "CONTEXT", "TOKENIZER", "CHAT",
                            "SERVED"}};
  for (const ModelFacts& facts : models) rows.push_back(RowOf(facts));
  std::vector<size_t> widths(rows[0].size());
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < rows[r].size(); ++i) {
      absl::StrAppend(&line, rows[r][i], std::string(widths[i] - rows[r][i].size() + 2, ' '));
    }
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
    if (r == 0 || models[r - 1].served.ok()) continue;
    absl::StrAppend(&text, "  not served: ", ShownLine(models[r - 1].served.message()), "\n");
  }
  return text;
}

std::string FactsJson(absl::Span<const ModelFacts> models) {
  nlohmann::json list = nlohmann::json::array();
  for (const ModelFacts& facts : models) {
    nlohmann::json types = nlohmann::json::array();
    for (const WeightTypeBytes& of_type : facts.weight_types) {
      types.push_back({{"type", GgmlTypeName(of_type.type)}, {"bytes", of_type.bytes}});
    }
    nlohmann::json kv = nlohmann::json::array();
    for (const KvCost& cost : facts.kv) {
      kv.push_back({{"type", KvTypeName(cost.type)},
                    {"bytes_per_token", cost.bytes_per_token},
                    {"bytes", cost.bytes}});
    }
    nlohmann::json model = {{"path", facts.path},
                            {"name", facts.name},
                            {"architecture", facts.architecture},
                            {"parameters", facts.parameters},
                            {"weight_types", std::move(types)},
                            {"file_bytes", facts.file_bytes},
                            {"weight_bytes", facts.weight_bytes},
                            {"context_length", facts.context_length},
                            {"max_model_len", facts.max_model_len},
                            {"kv", std::move(kv)},
                            {"tokenizer", facts.tokenizer},
                            {"chat_template", facts.chat_template},
                            {"served", facts.served.ok()}};
    if (!facts.served.ok()) model["error"] = std::string(facts.served.message());
    list.push_back(std::move(model));
  }
  const nlohmann::json all = {{"models", std::move(list)}};
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace baton
