// CRC32C (Castagnoli, reflected polynomial 0x82F63B78, RFC 3720 B.4), which guards KV pages and
// push headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton {

// The CRC of earlier bytes followed by `size` bytes of `data`. `crc` is that of the earlier bytes;
// 0 if there are none. Crc32c("123456789") = 0xE3069283. It is fast from about 1 KiB on, so pass
// many bytes at once.
uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t size);
inline uint32_t Crc32c(const void* data, size_t size) { return ExtendCrc32c(0, data, size); }

// The three implementations, all with the same result. ExtendCrc32c calls the fastest that the CPU
// has instructions for. They are declared here so that tests reach each of them.
uint32_t ExtendCrc32cPortable(uint32_t crc, const void* data, size_t size);
// Runs three streams of bytes at once. REQUIRES: HasCrc32cSse42().
uint32_t ExtendCrc32cSse42(uint32_t crc, const void* data, size_t size);
// Folds 256 bytes at once. REQUIRES: HasCrc32cAvx512().
uint32_t ExtendCrc32cAvx512(uint32_t crc, const void* data, size_t size);
bool HasCrc32cSse42();   // whether the CPU has SSE 4.2 and PCLMULQDQ
bool HasCrc32cAvx512();  // whether the CPU also has AVX-512 and VPCLMULQDQ

}  // namespace baton
