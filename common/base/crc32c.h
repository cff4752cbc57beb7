// CRC32C (Castagnoli, reflected polynomial 0x82F63B78, RFC 3720 B.4): the check of KV pages and
// push headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton {

// The CRC of `size` bytes appended to bytes whose CRC is `crc` (0 for none). Crc32c("123456789") =
// 0xE3069283.
uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t size);
inline uint32_t Crc32c(const void* data, size_t size) { return ExtendCrc32c(0, data, size); }

// The two ways to the same result, one of which ExtendCrc32c takes; apart so that tests reach both.
uint32_t ExtendCrc32cPortable(uint32_t crc, const void* data, size_t size);
// REQUIRES: the CPU has SSE 4.2.
uint32_t ExtendCrc32cSse42(uint32_t crc, const void* data, size_t size);

}  // namespace baton
