#include "common/base/crc32c.h"

#include <nmmintrin.h>

#include <array>
#include <cstring>

namespace baton {
namespace {

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0x82F63B78u : 0u);
    table[i] = value;
  }
  return table;
}

}  // namespace

uint32_t ExtendCrc32cPortable(uint32_t crc, const void* data, size_t size) {
  static constexpr std::array<uint32_t, 256> kTable = MakeTable();
  const auto* bytes = static_cast<const uint8_t*>(data);
  uint32_t state = ~crc;
  for (size_t i = 0; i < size; ++i) state = kTable[(state ^ bytes[i]) & 0xff] ^ (state >> 8);
  return ~state;
}

__attribute__((target("sse4.2"))) uint32_t ExtendCrc32cSse42(uint32_t crc, const void* data,
                                                             size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  uint64_t wide = ~crc;
  for (; size >= 8; size -= 8, bytes += 8) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  auto state = static_cast<uint32_t>(wide);
  for (; size > 0; --size, ++bytes) state = _mm_crc32_u8(state, *bytes);
  return ~state;
}

uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t size) {
  static const bool has_sse42 = __builtin_cpu_supports("sse4.2");
  return has_sse42 ? ExtendCrc32cSse42(crc, data, size) : ExtendCrc32cPortable(crc, data, size);
}

}  // namespace baton
