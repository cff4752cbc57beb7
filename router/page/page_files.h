// The files of the router's page, compiled in.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace baton {

struct PageFile {
  absl::string_view path;          // "/" or below "/page/"
  absl::string_view content_type;  // as HTTP says it
  absl::string_view body;
  absl::string_view etag;  // ETag of the body, with its quotes
};

// All of them, in the order of their paths; they live as long as the program.
absl::Span<const PageFile> PageFiles();

}  // namespace baton
