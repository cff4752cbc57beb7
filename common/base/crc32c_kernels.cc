// The three implementations of CRC32C.
//
// Bytes are a polynomial over GF(2). In reflected order the lowest bit of the first byte has the
// highest power. Appending n zero bits multiplies a CRC by x^n mod P, so the CRCs of several pieces
// can be computed apart and joined. The carry-less product of two reflected words has one power of
// x too many, and the instruction crc32 over 64 bits multiplies by x^32; the powers of the
// constants below are smaller by both. The streams follow V. Gopal et al., "Fast CRC Computation
// for iSCSI Polynomial Using CRC32 Instruction" (Intel, 2011). The folding follows "Fast CRC
// Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009).
#include <immintrin.h>

#include <array>
#include <cstring>

#include "common/base/crc32c.h"

namespace baton {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78u;

// Returns value * x mod P.
constexpr uint32_t TimesX(uint32_t value) {
  return (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0u);
}

// Returns x^power mod P.
constexpr uint32_t PowerOfX(int power) {
  uint32_t value = 0x80000000u;  // the polynomial 1
  for (int i = 0; i < power; ++i) value = TimesX(value);
  return value;
}

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = TimesX(table[i]);
  }
  return table;
}

uint64_t Load64(const uint8_t* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// Extends `state`, 8 bytes at a time. Here and below `state` is a CRC without its two inversions.
__attribute__((target("sse4.2"))) uint32_t Serial(uint32_t state, const uint8_t* bytes,
                                                  size_t size) {
  uint64_t wide = state;
  for (; size >= 8; size -= 8, bytes += 8) wide = _mm_crc32_u64(wide, Load64(bytes));
  state = static_cast<uint32_t>(wide);
  for (; size > 0; --size, ++bytes) state = _mm_crc32_u8(state, *bytes);
  return state;
}

// The state after `bytes` further zero bytes. REQUIRES: `power` = PowerOfX(8 * bytes - 33).
__attribute__((target("sse4.2,pclmul"))) inline uint64_t Shift(uint64_t state, uint32_t power) {
  const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<int64_t>(state)),
                                               _mm_cvtsi32_si128(static_cast<int>(power)), 0);
  return _mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(product)));
}

// Consumes 3 * kStream bytes at a time while there are as many. Three streams keep the instruction
// crc32 busy, which takes three cycles and can start every cycle.
template <size_t kStream>
__attribute__((target("sse4.2,pclmul"))) uint32_t ThreeStreams(uint32_t state,
                                                               const uint8_t*& bytes,
                                                               size_t& size) {
  static constexpr uint32_t kOne = PowerOfX(8 * static_cast<int>(kStream) - 33);
  static constexpr uint32_t kTwo = PowerOfX(16 * static_cast<int>(kStream) - 33);
  while (size >= 3 * kStream) {
    uint64_t first = state;
    uint64_t second = 0;
    uint64_t third = 0;
    for (const uint8_t* const end = bytes + kStream; bytes != end; bytes += 8) {
      first = _mm_crc32_u64(first, Load64(bytes));
      second = _mm_crc32_u64(second, Load64(bytes + kStream));
      third = _mm_crc32_u64(third, Load64(bytes + 2 * kStream));
    }
    state = static_cast<uint32_t>(Shift(first, kTwo) ^ Shift(second, kOne) ^ third);
    bytes += 2 * kStream;
    size -= 3 * kStream;
  }
  return state;
}

// The constants that carry the low and the high word of 128 bits over `bits` further bits. Their
// degree is below 32, in 64 reflected bits.
constexpr int64_t CarryLow(int bits) {
  return static_cast<int64_t>(uint64_t{PowerOfX(bits + 63)} << 32);
}
constexpr int64_t CarryHigh(int bits) {
  return static_cast<int64_t>(uint64_t{PowerOfX(bits - 1)} << 32);
}

#define BATON_CRC_AVX512 \
  __attribute__((target("avx512f,avx512vl,avx512dq,vpclmulqdq,pclmul,sse4.2")))

// Carries each 128-bit lane of `sum` over by its pair of constants, and adds `next`.
BATON_CRC_AVX512 inline __m512i Fold(__m512i sum, __m512i constants, __m512i next) {
  const __m512i low = _mm512_clmulepi64_epi128(sum, constants, 0x00);
  const __m512i high = _mm512_clmulepi64_epi128(sum, constants, 0x11);
  return _mm512_ternarylogic_epi64(low, high, next, 0x96);  // low ^ high ^ next
}

// The pair of constants for kBits, in each of the four lanes.
template <int kBits>
BATON_CRC_AVX512 inline __m512i CarryBy() {
  constexpr int64_t kLow = CarryLow(kBits);
  constexpr int64_t kHigh = CarryHigh(kBits);
  return _mm512_set_epi64(kHigh, kLow, kHigh, kLow, kHigh, kLow, kHigh, kLow);
}

BATON_CRC_AVX512 inline __m512i Load512(const uint8_t* bytes) { return _mm512_loadu_si512(bytes); }

// Consumes all whole multiples of 64 bytes and returns the state after them. REQUIRES: size >= 256.
BATON_CRC_AVX512 uint32_t FoldAll(uint32_t state, const uint8_t*& bytes, size_t& size) {
  const __m512i seed = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state)));
  __m512i a = _mm512_xor_si512(Load512(bytes), seed);
  __m512i b = Load512(bytes + 64);
  __m512i c = Load512(bytes + 128);
  __m512i d = Load512(bytes + 192);
  bytes += 256;
  size -= 256;
  const __m512i by_2048 = CarryBy<2048>();
  for (; size >= 256; size -= 256, bytes += 256) {
    a = Fold(a, by_2048, Load512(bytes));
    b = Fold(b, by_2048, Load512(bytes + 64));
    c = Fold(c, by_2048, Load512(bytes + 128));
    d = Fold(d, by_2048, Load512(bytes + 192));
  }
  const __m512i by_512 = CarryBy<512>();
  d = Fold(Fold(Fold(a, by_512, b), by_512, c), by_512, d);
  for (; size >= 64; size -= 64, bytes += 64) d = Fold(d, by_512, Load512(bytes));

  const __m512i to_last_lane = _mm512_set_epi64(0, 0, CarryHigh(128), CarryLow(128), CarryHigh(256),
                                                CarryLow(256), CarryHigh(384), CarryLow(384));
  uint64_t lanes[8];
  _mm512_storeu_si512(lanes, Fold(d, to_last_lane, _mm512_maskz_mov_epi64(0xC0, d)));
  const uint64_t first = _mm_crc32_u64(0, lanes[0] ^ lanes[2] ^ lanes[4] ^ lanes[6]);
  return static_cast<uint32_t>(_mm_crc32_u64(first, lanes[1] ^ lanes[3] ^ lanes[5] ^ lanes[7]));
}

}  // namespace

uint32_t ExtendCrc32cPortable(uint32_t crc, const void* data, size_t size) {
  static constexpr std::array<uint32_t, 256> kTable = MakeTable();
  const auto* bytes = static_cast<const uint8_t*>(data);
  uint32_t state = ~crc;
  for (size_t i = 0; i < size; ++i) state = kTable[(state ^ bytes[i]) & 0xff] ^ (state >> 8);
  return ~state;
}

__attribute__((target("sse4.2,pclmul"))) uint32_t ExtendCrc32cSse42(uint32_t crc, const void* data,
                                                                    size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  uint32_t state = ~crc;
  state = ThreeStreams<1024>(state, bytes, size);
  state = ThreeStreams<128>(state, bytes, size);
  return ~Serial(state, bytes, size);
}

BATON_CRC_AVX512 uint32_t ExtendCrc32cAvx512(uint32_t crc, const void* data, size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  uint32_t state = ~crc;
  if (size >= 256) state = FoldAll(state, bytes, size);
  return ~Serial(state, bytes, size);
}

#undef BATON_CRC_AVX512

bool HasCrc32cSse42() {
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

bool HasCrc32cAvx512() {
  return HasCrc32cSse42() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("vpclmulqdq");
}

}  // namespace baton
