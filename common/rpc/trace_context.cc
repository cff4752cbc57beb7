#include "common/rpc/trace_context.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

bool IsLowerHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isxdigit(c) && !absl::ascii_isupper(c);
  });
}

bool IsZero(absl::string_view digits) {
  return digits.find_first_not_of('0') == absl::string_view::npos;
}

}  // namespace

std::optional<TraceParent> ParseTraceParent(absl::string_view text) {
  // VERSION-TRACE-PARENT-FLAGS. Later versions may go on after another dash.
  constexpr size_t kTraceAt = 3, kParentAt = 36, kFlagsAt = 53, kSize = 55;
  if (text.size() < kSize) return std::nullopt;
  const absl::string_view version = text.substr(0, 2);
  const absl::string_view trace = text.substr(kTraceAt, kParentAt - 1 - kTraceAt);
  const absl::string_view parent = text.substr(kParentAt, kFlagsAt - 1 - kParentAt);
  const absl::string_view flags = text.substr(kFlagsAt, kSize - kFlagsAt);
  for (const size_t dash : {kTraceAt - 1, kParentAt - 1, kFlagsAt - 1}) {
    if (text[dash] != '-') return std::nullopt;
  }
  for (const absl::string_view digits : {version, trace, parent, flags}) {
    if (!IsLowerHex(digits)) return std::nullopt;
  }
  if (version == "ff" || IsZero(trace) || IsZero(parent)) return std::nullopt;
  if (text.size() > kSize && (version == "00" || text[kSize] != '-')) return std::nullopt;
  // The lowest bit of the flags: an odd digit.
  const char last = flags.back();
  const int digit = absl::ascii_isdigit(static_cast<unsigned char>(last)) ? last - '0' : last - 'a';
  return TraceParent{.trace_id = trace, .span_id = parent, .sampled = digit % 2 == 1};
}

std::string TraceParentOf(const TraceContext& context) {
  return absl::StrCat("00-", context.trace_id, "-", context.span_id, "-",
                      context.sampled ? "01" : "00");
}

}  // namespace baton
