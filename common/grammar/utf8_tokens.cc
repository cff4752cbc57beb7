#include "common/grammar/utf8_tokens.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/token_mask.h"
#include "common/grammar/grammar_vocabulary.h"

namespace baton {
namespace {

// Behind `byte` only the bytes from `first` to `last` may come.
struct Narrow {
  uint8_t byte;
  uint8_t first;
  uint8_t last;
};
constexpr std::array<Narrow, 4> kNarrow = {
    {{0xe0, 0xa0, 0xbf}, {0xed, 0x80, 0x9f}, {0xf0, 0x90, 0xbf}, {0xf4, 0x80, 0x8f}}};

bool IsContinuation(uint8_t byte) { return byte >= 0x80 && byte <= 0xbf; }

bool Allows(const Narrow& narrow, uint8_t next) {
  return next >= narrow.first && next <= narrow.last;
}

bool Contains(const std::vector<int32_t>& ascending, int32_t token) {
  return std::binary_search(ascending.begin(), ascending.end(), token);
}

void Remove(absl::Span<const int32_t> tokens, absl::Span<uint32_t> mask) {
  for (const int32_t token : tokens) RemoveFromMask(mask.data(), token);
}

}  // namespace

bool IsBrokenUtf8(absl::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte == 0xc0 || byte == 0xc1 || byte >= 0xf5) return true;
    for (const Narrow& narrow : kNarrow) {
      if (narrow.byte != byte || i + 1 == text.size()) continue;
      if (!Allows(narrow, static_cast<uint8_t>(text[i + 1]))) return true;
    }
  }
  return false;
}

Utf8Tokens::Utf8Tokens(const std::vector<std::string>& texts) {
  static_assert(kNarrow.size() == kOpenBytes);
  for (size_t id = 0; id < texts.size(); ++id) {
    const std::string& text = texts[id];
    if (text.empty() || text.front() == kSpecialTokenByte) continue;
    const auto token = static_cast<int32_t>(id);
    if (IsBrokenUtf8(text)) {
      broken_.push_back(token);
      continue;
    }
    const bool ends_open = OpenByte(text) != 0;
    if (ends_open) ending_open_.push_back(token);
    const auto first = static_cast<uint8_t>(text.front());
    if (!IsContinuation(first)) continue;
    for (size_t i = 0; i < kOpenBytes; ++i) {
      if (!Allows(kNarrow[i], first)) {
        forbidden_[i].push_back(token);
      } else if (!ends_open) {
        next_[i].push_back(text);
      }
    }
  }
  for (std::vector<std::string>& next : next_) {
    std::stable_sort(next.begin(), next.end(),
                     [](const auto& a, const auto& b) { return a.size() < b.size(); });
  }
}

char Utf8Tokens::OpenByte(absl::string_view text) {
  if (text.empty() || text.front() == kSpecialTokenByte) return 0;
  const bool narrow = std::any_of(kNarrow.begin(), kNarrow.end(), [&](const Narrow& one) {
    return one.byte == static_cast<uint8_t>(text.back());
  });
  return narrow ? text.back() : '\0';
}

size_t Utf8Tokens::IndexOf(char open) {
  size_t index = 0;
  while (index < kOpenBytes && kNarrow[index].byte != static_cast<uint8_t>(open)) ++index;
  BATON_CHECK(index < kOpenBytes, "any byte may come behind this one");
  return index;
}

bool Utf8Tokens::IsForbidden(char open, int32_t token) const {
  return Contains(broken_, token) || (open != 0 && Contains(forbidden_[IndexOf(open)], token));
}

void Utf8Tokens::RemoveForbidden(char open, absl::Span<uint32_t> mask) const {
  Remove(broken_, mask);
  if (open != 0) Remove(forbidden_[IndexOf(open)], mask);
}

absl::Span<const std::string> Utf8Tokens::Next(char open) const { return next_[IndexOf(open)]; }

}  // namespace baton
