#include "router/openai/call_arguments.h"

#include <cstddef>

#include "router/openai/common_fields.h"

namespace baton {

std::string ArgumentsText(const nlohmann::ordered_json& object) {
  const std::string compact = DumpJson(object);
  std::string text;
  text.reserve(compact.size());
  bool in_string = false;
  for (size_t i = 0; i < compact.size(); ++i) {
    const char byte = compact[i];
    text += byte;
    if (in_string && byte == '\\') {
      text += compact[++i];  // valid JSON has a byte behind it
    } else if (byte == '"') {
      in_string = !in_string;
    } else if (!in_string && (byte == ',' || byte == ':')) {
      text += ' ';
    }
  }
  return text;
}

}  // namespace baton
