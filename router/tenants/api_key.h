// API keys: the secret that a client shows, and what others may know of it.
//
// A key is "baton-" and 256 random bits in base64url. Nobody guesses such a number, so its plain
// SHA-256 keeps it secret: a slow hash would protect only what people make up. The key's id, the
// first digits of that hash, is public; it stands in the log and in lists.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace baton {

// A new key, secret. Thread-safe, as all of these are.
std::string MakeApiKey();
// Whether `text` has the form of a key.
bool IsApiKey(absl::string_view text);
// The 32 bytes of the key's hash.
std::string HashApiKey(absl::string_view key);
// Twelve hexadecimal digits. REQUIRES: `hash` is from HashApiKey.
std::string ApiKeyId(absl::string_view hash);

}  // namespace baton
