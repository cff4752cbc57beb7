#include "router/web/request_id.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

#include "common/base/random.h"
#include "common/rpc/limits.h"
#include "router/web/refusal.h"

namespace baton {
namespace {

bool IsLowerHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isxdigit(c) && !absl::ascii_isupper(c);
  });
}

bool IsPrinted(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return absl::ascii_isgraph(c); });
}

}  // namespace

absl::string_view TraceOf(absl::string_view traceparent) {
  // VERSION-TRACE-PARENT-FLAGS. Later versions may go on after another dash.
  constexpr size_t kTraceAt = 3, kParentAt = 36, kFlagsAt = 53, kSize = 55;
  if (traceparent.size() < kSize) return "";
  const absl::string_view version = traceparent.substr(0, 2);
  const absl::string_view trace = traceparent.substr(kTraceAt, kParentAt - 1 - kTraceAt);
  const absl::string_view parent = traceparent.substr(kParentAt, kFlagsAt - 1 - kParentAt);
  const absl::string_view flags = traceparent.substr(kFlagsAt, kSize - kFlagsAt);
  for (const size_t dash : {kTraceAt - 1, kParentAt - 1, kFlagsAt - 1}) {
    if (traceparent[dash] != '-') return "";
  }
  for (const absl::string_view digits : {version, trace, parent, flags}) {
    if (!IsLowerHex(digits)) return "";
  }
  if (version == "ff") return "";
  if (traceparent.size() > kSize && (version == "00" || traceparent[kSize] != '-')) return "";
  const auto is_zero = [](absl::string_view digits) {
    return digits.find_first_not_of('0') == absl::string_view::npos;
  };
  return is_zero(trace) || is_zero(parent) ? "" : trace;
}

std::string RequestIdOf(const HttpRequest& head) {
  const absl::string_view given = head.Header(kRequestIdHeader);
  if (!given.empty() && given.size() <= kMaxNameBytes && IsPrinted(given)) {
    return std::string(given);
  }
  if (const absl::string_view trace = TraceOf(head.Header("traceparent")); !trace.empty()) {
    return std::string(trace);
  }
  return absl::StrFormat("%016x%016x", RandomUint64(), RandomUint64());
}

}  // namespace baton
