#include "client/plan/planned_load.h"

#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/hash.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr size_t kMostRequests = 2'000'000;

// The names of the whole pages among the first `tokens` tokens.
std::vector<uint64_t> PageNames(const std::vector<uint64_t>& ids, int page_tokens, int tokens) {
  std::vector<uint64_t> names;
  Hash128 link;
  for (const uint64_t id : ids) {
    if ((static_cast<int64_t>(names.size()) + 1) * page_tokens > tokens) break;
    char bytes[sizeof(id)];
    std::memcpy(bytes, &id, sizeof(id));
    link = ChainHash(link, absl::string_view(bytes, sizeof(bytes)));
    names.push_back(link.high | 1);
  }
  return names;
}

}  // namespace

absl::StatusOr<PlannedLoad> MakePlannedLoad(const LoadClass& load,
                                            const LoadSource::Options& options,
                                            absl::Duration duration) {
  BATON_ASSIGN_OR_RETURN(LoadSource source, LoadSource::Create(load, options));
  PlannedLoad planned{.requests = {}, .page_tokens = source.page_tokens()};
  const bool has_end = load.rate > 0;
  while (const std::optional<absl::Duration> at = source.NextArrival()) {
    if (has_end && *at >= duration) break;
    if (planned.requests.size() == kMostRequests) {
      return absl::InvalidArgumentError(absl::StrCat(
          "more than ", kMostRequests, " requests; lower --num-prompts or --duration"));
    }
    const TraceRequest& next = source.NextLengths();
    planned.requests.push_back(
        {.at_ns = absl::ToInt64Nanoseconds(*at),
         .input_tokens = next.input_tokens,
         .output_tokens = next.output_tokens,
         .pages = PageNames(next.pages, planned.page_tokens, next.input_tokens)});
  }
  if (planned.requests.empty()) {
    return absl::InvalidArgumentError(
        "--duration: no request arrives in that time; give a longer one, or a higher "
        "--request-rate");
  }
  return planned;
}

}  // namespace baton
