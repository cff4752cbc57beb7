// Looks for markers in a text that is still growing.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace baton {

// Most blanks in front of a marker that belong to it.
inline constexpr size_t kMaxMarkerBlanks = 8;

struct MarkerSearch {
  size_t text_bytes = 0;  // text before the marker, or text that no marker can be part of any more
  int marker = -1;        // index of the marker; -1: none is complete
  size_t begin = 0;       // begin of the marker
  size_t end = 0;
};

// The first of `markers` in the text. What is left when text_bytes are taken away is at most
// kMaxMarkerBlanks longer than a marker, unless one was found. Looks at each byte once for each
// marker.
MarkerSearch FindMarker(absl::string_view text, const std::vector<std::string>& markers);

}  // namespace baton
