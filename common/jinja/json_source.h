// Objects of a chat that keep the JSON text which they were read from.
#pragma once

namespace baton {

// The key of an object in ChatJson whose value, a string, is the JSON text of the whole object. The
// template sees no such member. The filter tojson writes the text, byte for byte, unless it
// indents: a model's call keeps the white space, numbers and escapes that it wrote.
inline constexpr char kJsonSourceKey[] = "\x01json";

}  // namespace baton
