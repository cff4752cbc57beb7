// CRC32C (Castagnoli, reflected polynomial 0x82F63B78, RFC 3720 B.4): the check of KV pages and
// push headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton {

// The CRC of `size` bytes appended to bytes whose CRC is `crc` (0 for none). Crc32c("123456789") =
// 0xE3069283. Fast from about 1 KiB on: pass long pieces.
uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t size);
inline uint32_t Crc32c(const void* data, size_t size) { return ExtendCrc32c(0, data, size); }

// The ways to the same result, one of which ExtendCrc32c takes; apart so that tests reach each.
uint32_t ExtendCrc32cPortable(uint32_t crc, const void* data, size_t size);
// Three streams at once. REQUIRES: HasCrc32cSse42().
uint32_t ExtendCrc32cSse42(uint32_t crc, const void* data, size_t size);
// Folds 256 bytes at once. REQUIRES: HasCrc32cAvx512().
uint32_t ExtendCrc32cAvx512(uint32_t crc, const void* data, size_t size);
bool HasCrc32cSse42();   // the CPU has SSE 4.2 and PCLMULQDQ
bool HasCrc32cAvx512();  // the CPU has AVX-512 and VPCLMULQDQ too

}  // namespace baton
