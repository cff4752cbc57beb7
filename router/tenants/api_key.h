// API keys: the secret that a client shows, and what others may know of it.
//
// A key that Baton makes is "baton-" and 256 random bits in base64url. Such a number cannot be
// guessed, so its plain SHA-256 keeps it secret: a slow hash would protect only what people make
// up. A file gets the hash of a key that a user brings only if the key passes IsStrongApiKey. The
// key's id, the first digits of that hash, is public; it stands in the log and in lists.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace baton {

inline constexpr size_t kMinApiKeyCharacters = 16;
inline constexpr size_t kMaxApiKeyCharacters = 256;
inline constexpr size_t kMinStrongKeyCharacters = 32;
inline constexpr size_t kMinStrongKeyDifferent = 12;

// A new key, secret. Thread-safe, as all of these are.
std::string MakeApiKey();
// Whether `text` can be a key, made by Baton or chosen by a user: kMinApiKeyCharacters to
// kMaxApiKeyCharacters visible ASCII characters.
bool IsApiKey(absl::string_view text);
// Whether `text` can be a key whose plain hash others may read: at least kMinStrongKeyCharacters,
// at least kMinStrongKeyDifferent of them different. This refuses a repeated word; it cannot measure
// how random the key is.
bool IsStrongApiKey(absl::string_view text);
// The 32 bytes of the key's hash.
std::string HashApiKey(absl::string_view key);
// Twelve hexadecimal digits. REQUIRES: `hash` is from HashApiKey.
std::string ApiKeyId(absl::string_view hash);

}  // namespace baton
