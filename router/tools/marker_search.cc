#include "router/tools/marker_search.h"

#include "absl/strings/match.h"

#include "router/tools/text_reader.h"

namespace baton {
namespace {

// Where the blanks begin that end the text.
size_t BlanksBegin(absl::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && text.size() - begin < kMaxMarkerBlanks && IsJsonSpace(text[begin - 1])) {
    --begin;
  }
  return begin;
}

}  // namespace

MarkerSearch FindMarker(absl::string_view text, const std::vector<std::string>& markers) {
  MarkerSearch search;
  for (size_t at = 0; at < text.size(); ++at) {
    const absl::string_view rest = text.substr(at);
    for (size_t i = 0; i < markers.size(); ++i) {
      if (absl::StartsWith(rest, markers[i])) {
        search.marker = static_cast<int>(i);
        search.begin = at;
        search.end = at + markers[i].size();
      } else if (!absl::StartsWith(markers[i], rest)) {
        continue;
      }
      search.text_bytes = BlanksBegin(text.substr(0, at));
      return search;
    }
  }
  search.text_bytes = BlanksBegin(text);
  return search;
}

}  // namespace baton
