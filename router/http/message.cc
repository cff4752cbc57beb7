#include "router/http/message.h"

#include <utility>

namespace baton {

std::vector<std::string> HttpRequest::HeaderValues(absl::string_view name) const {
  std::vector<std::string> values;
  for (const HttpHeader& header : headers) {
    if (header.name == name) values.push_back(header.value);
  }
  return values;
}

absl::string_view HttpRequest::Header(absl::string_view name) const {
  for (const HttpHeader& header : headers) {
    if (header.name == name) return header.value;
  }
  return "";
}

size_t HttpRequest::MemoryBytes() const {
  size_t bytes = path.size() + query.size();
  for (const HttpHeader& header : headers) {
    bytes += sizeof(header) + header.name.size() + header.value.size();
  }
  return bytes;
}

HttpResponse JsonResponse(int status, std::string body) {
  return {
      .status = status, .headers = {{"Content-Type", "application/json"}}, .body = std::move(body)};
}

}  // namespace baton
