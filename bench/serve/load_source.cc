#include "bench/serve/load_source.h"

#include <cmath>
#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "common/base/philox.h"
#include "common/base/status_macros.h"
#include "common/flags/flag_value.h"

namespace baton {
namespace {

constexpr int kMaxTokens = 1 << 20;
constexpr uint32_t kPageTokens = 8;

absl::Status CheckClass(const LoadClass& load) {
  const auto wrong = [&](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("class '", load.name, "': ", what));
  };
  if ((load.rate > 0) == (load.concurrency > 0)) {
    return wrong("give a rate (requests/s) or a concurrency (streams), one of the two");
  }
  if (load.rate < 0 || load.concurrency < 0) return wrong("nothing can be negative");
  for (const int tokens : {load.input_tokens, load.output_tokens}) {
    if (tokens < 1 || tokens > kMaxTokens) return wrong("lengths are 1 to 1048576 tokens");
  }
  return absl::OkStatus();
}

absl::Status SetField(absl::string_view key, absl::string_view value, LoadClass* load) {
  const auto set_int = [&](int* field) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(const uint64_t count, ParseCount(value));
    *field = static_cast<int>(std::min<uint64_t>(count, INT32_MAX));
    return absl::OkStatus();
  };
  if (key == "concurrency") return set_int(&load->concurrency);
  if (key == "input") return set_int(&load->input_tokens);
  if (key == "output") return set_int(&load->output_tokens);
  if (key == "rate") {
    BATON_ASSIGN_OR_RETURN(load->rate, ParseNumber(value));
    return absl::OkStatus();
  }
  if (key == "trace") {
    load->trace = std::string(value);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", key, "' is none of rate, concurrency, input, output, trace"));
}

}  // namespace

absl::StatusOr<LoadClass> ParseLoadClass(const std::string& text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  LoadClass load{.name = std::string(parts.first)};
  for (absl::string_view field : absl::StrSplit(parts.second, ',')) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(field, absl::MaxSplits('=', 1));
    if (const absl::Status status = SetField(pair.first, pair.second, &load); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("class '", text, "': ", field, ": ", status.message()));
    }
  }
  return load;
}

absl::StatusOr<LoadSource> LoadSource::Create(const LoadClass& load, uint32_t vocab_size,
                                              uint64_t seed) {
  BATON_RETURN_IF_ERROR(CheckClass(load));
  std::vector<Lengths> lengths = {
      {.input_tokens = load.input_tokens, .output_tokens = load.output_tokens}};
  if (!load.trace.empty()) {
    BATON_ASSIGN_OR_RETURN(lengths, ReadTrace(load.trace));
  }
  return LoadSource(load.rate, vocab_size, seed, std::move(lengths));
}

LoadSource::LoadSource(double rate, uint32_t vocab_size, uint64_t seed,
                       std::vector<Lengths> lengths)
    : rate_(rate),
      vocab_size_(vocab_size),
      seed_(seed),
      lengths_(std::move(lengths)),
      arrivals_(seed),
      tokens_(~seed) {}

absl::StatusOr<std::vector<LoadSource::Lengths>> LoadSource::ReadTrace(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("trace ", path, ": cannot be read"));
  std::vector<Lengths> lengths;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> columns = absl::StrSplit(line, ',');
    Lengths row;
    bool good = columns.size() == 3 && absl::SimpleAtoi(columns[0], &row.input_tokens) &&
                absl::SimpleAtoi(columns[1], &row.output_tokens) && row.input_tokens > 0 &&
                row.output_tokens > 0 && row.input_tokens <= kMaxTokens;
    if (good) {
      for (absl::string_view page : absl::StrSplit(columns[2], ' ', absl::SkipEmpty())) {
        good = absl::SimpleAtoi(page, &row.pages.emplace_back()) && good;
      }
    }
    if (!good) {
      return absl::InvalidArgumentError(absl::StrCat(
          "trace ", path, ":", number, ": must be 'prompt tokens, output tokens, page ids'"));
    }
    lengths.push_back(std::move(row));
  }
  if (lengths.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("trace ", path, ": has no requests"));
  }
  return lengths;
}

absl::Duration LoadSource::NextArrival() {
  constexpr double kUnit = 1.0 / (uint64_t{1} << 53);
  const double uniform = static_cast<double>(arrivals_() >> 11) * kUnit;  // [0, 1)
  arrival_ += absl::Seconds(-std::log1p(-uniform) / rate_);
  return arrival_;
}

v1::GenerateRequest LoadSource::NextRequest() {
  const Lengths& lengths = lengths_[turn_++ % lengths_.size()];
  v1::GenerateRequest request;
  request.set_stream(true);
  request.set_return_token_ids(true);
  request.mutable_sampling_params()->set_temperature(0);
  request.mutable_sampling_params()->set_ignore_eos(true);
  request.mutable_sampling_params()->set_max_tokens(static_cast<uint32_t>(lengths.output_tokens));
  auto& ids = *request.mutable_prompt_token_ids()->mutable_ids();
  ids.Reserve(lengths.input_tokens);
  for (const uint32_t page : lengths.pages) {
    for (uint32_t i = 0; i < kPageTokens && ids.size() < lengths.input_tokens; ++i) {
      ids.Add(Philox4x32({page, i, 0, 0}, seed_)[0] % vocab_size_);
    }
  }
  while (ids.size() < lengths.input_tokens) {
    ids.Add(static_cast<uint32_t>(tokens_() % vocab_size_));
  }
  return request;
}

}  // namespace baton
