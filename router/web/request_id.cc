#include "router/web/request_id.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

#include "common/base/random.h"
#include "common/rpc/limits.h"
#include "common/rpc/trace_context.h"
#include "router/access_log/access_entry.h"
#include "router/web/refusal.h"

namespace baton {
namespace {

bool IsPrinted(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return absl::ascii_isgraph(c); });
}

std::string NewIdOf(const HttpRequest& head) {
  const absl::string_view given = head.Header(kRequestIdHeader);
  if (!given.empty() && given.size() <= kMaxNameBytes && IsPrinted(given)) {
    return std::string(given);
  }
  const auto parent = ParseTraceParent(head.Header(kTraceParentHeader));
  if (parent.has_value()) return std::string(parent->trace_id);
  return NewId();
}

}  // namespace

std::string NewId() { return absl::StrFormat("%016x%016x", RandomUint64(), RandomUint64()); }

std::string RequestIdOf(const HttpRequest& head) {
  if (head.access == nullptr) return NewIdOf(head);
  if (std::string known = head.access->id(); !known.empty()) return known;
  std::string id = NewIdOf(head);
  head.access->SetId(id);
  return id;
}

}  // namespace baton
