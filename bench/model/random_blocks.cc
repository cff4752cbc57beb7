#include "bench/model/random_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "common/base/check.h"
#include "common/base/float_types.h"

namespace baton {
namespace {

// A block format: random bytes, of which the scales are overwritten.
struct BlockFormat {
  GgmlType type;
  int scale_at;          // offset of the scale (F16) in a block
  int min_at;            // offset of the minimum (F16); -1: none
  double spread;         // standard deviation of the values if the scale is 1
  double min_per_scale;  // minimum, as a multiple of the scale, that makes the mean zero
};

// All codes are uniform. K-quants multiply the scale by a uniform 6-bit (Q6_K: 8-bit signed) factor
// and subtract the minimum times another such factor.
constexpr BlockFormat kFormats[] = {
    {GgmlType::kQ4_0, 0, -1, 4.61, 0},  {GgmlType::kQ4_1, 0, 2, 4.61, -7.5},
    {GgmlType::kQ5_0, 0, -1, 9.23, 0},  {GgmlType::kQ5_1, 0, 2, 9.23, -15.5},
    {GgmlType::kQ8_0, 0, -1, 73.9, 0},  {GgmlType::kQ4_K, 0, 2, 258, 7.5},
    {GgmlType::kQ5_K, 0, 2, 527, 15.5}, {GgmlType::kQ6_K, 208, -1, 1365, 0},
};

const BlockFormat* FindFormat(GgmlType type) {
  const auto* found = std::find_if(std::begin(kFormats), std::end(kFormats),
                                   [&](const BlockFormat& format) { return format.type == type; });
  return found == std::end(kFormats) ? nullptr : found;
}

// A float format. Its random numbers have random signs and mantissas and one exponent e, so that
// their magnitudes are uniform in [2^e, 2^(e + 1)).
struct FloatFormat {
  uint32_t random_bits;  // sign and mantissa
  int exponent_shift;
  int exponent_bias;
};

bool IsFloat(GgmlType type) {
  return type == GgmlType::kF32 || type == GgmlType::kF16 || type == GgmlType::kBf16;
}

// A generator of random numbers, xorshift64*, which is far faster than the memory that it fills.
class Random {
 public:
  explicit Random(uint64_t seed) : state_((seed + 1) * 0x9e3779b97f4a7c15u | 1) {
    for (int i = 0; i < 8; ++i) Next();
  }
  uint64_t Next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1du;
  }
  void Fill(absl::Span<uint8_t> out) {
    for (size_t i = 0; i < out.size(); i += sizeof(uint64_t)) {
      const uint64_t bits = Next();
      std::memcpy(out.data() + i, &bits, std::min(sizeof(bits), out.size() - i));
    }
  }

 private:
  uint64_t state_;
};

template <class Bits>
void SetExponents(const FloatFormat& format, double deviation, absl::Span<uint8_t> out) {
  constexpr double kSpread = 1.53;  // root mean square of magnitudes uniform in [1, 2)
  const int exponent = static_cast<int>(std::lround(std::log2(deviation / kSpread)));
  const uint32_t exponent_bits = static_cast<uint32_t>(exponent + format.exponent_bias)
                                 << format.exponent_shift;
  for (size_t i = 0; i + sizeof(Bits) <= out.size(); i += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, out.data() + i, sizeof(bits));
    bits = static_cast<Bits>((bits & format.random_bits) | exponent_bits);
    std::memcpy(out.data() + i, &bits, sizeof(bits));
  }
}

}  // namespace

bool HasRandomBlocks(GgmlType type) { return IsFloat(type) || FindFormat(type) != nullptr; }

void FillRandomBlocks(GgmlType type, double deviation, uint64_t seed, absl::Span<uint8_t> out) {
  BATON_CHECK(HasRandomBlocks(type), "a type with random blocks");
  const size_t block_bytes = GgmlBlockOf(type)->bytes;
  BATON_CHECK(out.size() % block_bytes == 0, "`out` must have whole blocks", out.size());
  Random(seed).Fill(out);
  if (type == GgmlType::kF32) return SetExponents<uint32_t>({0x807fffff, 23, 127}, deviation, out);
  if (type == GgmlType::kF16) return SetExponents<uint16_t>({0x83ff, 10, 15}, deviation, out);
  if (type == GgmlType::kBf16) return SetExponents<uint16_t>({0x807f, 7, 127}, deviation, out);
  const BlockFormat& format = *FindFormat(type);
  const double scale = deviation / format.spread;
  const uint16_t scale_bits = F32ToF16(static_cast<float>(scale));
  const uint16_t min_bits = F32ToF16(static_cast<float>(scale * format.min_per_scale));
  for (size_t block = 0; block < out.size(); block += block_bytes) {
    uint8_t* bytes = out.data() + block;
    std::memcpy(bytes + format.scale_at, &scale_bits, sizeof(scale_bits));
    if (format.min_at >= 0) std::memcpy(bytes + format.min_at, &min_bits, sizeof(min_bits));
  }
}

}  // namespace baton
