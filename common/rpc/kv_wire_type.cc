#include "common/rpc/kv_wire_type.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/float_types.h"
#include "common/base/log.h"

namespace baton {
namespace {

constexpr const char* kNames[] = {"f16", "bf16", "f32", "int8"};  // [KvWireType]
constexpr int32_t kMagnitude = 0x7fffffff;
constexpr int32_t kTooLarge = 0x7f000000;  // bits of 2^127; infinity and NaNs are above
constexpr float kRound = 0x1.8p23f;        // added to what is below 2^22, it rounds to an integer

struct F16 {
  using Stored = uint16_t;
  [[gnu::always_inline]] static float Widen(uint16_t bits) { return F16ToF32(bits); }
  [[gnu::always_inline]] static uint16_t Narrow(float value) { return F32ToF16(value); }
};
struct Bf16 {
  using Stored = uint16_t;
  [[gnu::always_inline]] static float Widen(uint16_t bits) { return Bf16ToF32(bits); }
  [[gnu::always_inline]] static uint16_t Narrow(float value) { return F32ToBf16(value); }
};
struct F32 {
  using Stored = float;
  [[gnu::always_inline]] static float Widen(float value) { return value; }
  [[gnu::always_inline]] static float Narrow(float value) { return value; }
};

// Nothing here is aligned: a slice of the network begins anywhere.
template <class T>
[[gnu::always_inline]] inline T LoadAt(const uint8_t* from, size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}
template <class T>
[[gnu::always_inline]] inline void StoreAt(T value, uint8_t* to, size_t index) {
  std::memcpy(to + index * sizeof(T), &value, sizeof(T));
}

template <class From, class To>
struct Convert {
  [[gnu::always_inline]] static void Run(const uint8_t* from, size_t count, uint8_t* to) {
    for (size_t i = 0; i < count; ++i) {
      StoreAt(To::Narrow(From::Widen(LoadAt<typename From::Stored>(from, i))), to, i);
    }
  }
};

template <class From>
struct EncodeInt8 {
  [[gnu::always_inline]] static void Run(const uint8_t* from, size_t heads, size_t head_dim,
                                         uint8_t* values, uint8_t* scales, bool* sayable) {
    using Stored = typename From::Stored;
    for (size_t head = 0; head < heads; ++head) {
      // Magnitudes compare as the integers of their bits do, and a loop over those vectorises.
      int32_t most = 0;
      for (size_t i = 0; i < head_dim; ++i) {
        const float value = From::Widen(LoadAt<Stored>(from, i));
        most = std::max(most, std::bit_cast<int32_t>(value) & kMagnitude);
      }
      *sayable = *sayable && most < kTooLarge;
      const float largest = std::bit_cast<float>(most);
      const bool zero = !(largest >= kLeastInt8Head) || most >= kTooLarge;
      const float divisor = zero ? std::numeric_limits<float>::max() : largest / 127;
      for (size_t i = 0; i < head_dim; ++i) {
        const float rounded = From::Widen(LoadAt<Stored>(from, i)) / divisor + kRound;
        const int32_t bits = std::bit_cast<int32_t>(rounded) - std::bit_cast<int32_t>(kRound);
        values[i] = static_cast<uint8_t>(bits);
      }
      StoreAt(zero ? 0.0f : divisor, scales, head);
      from += head_dim * sizeof(Stored);
      values += head_dim;
    }
  }
};

template <class To>
struct DecodeInt8 {
  [[gnu::always_inline]] static void Run(const uint8_t* values, const uint8_t* scales, size_t heads,
                                         size_t head_dim, uint8_t* to) {
    for (size_t head = 0; head < heads; ++head) {
      const float scale = LoadAt<float>(scales, head);
      for (size_t i = 0; i < head_dim; ++i) {
        StoreAt(To::Narrow(static_cast<float>(static_cast<int8_t>(values[i])) * scale), to, i);
      }
      values += head_dim;
      to += head_dim * sizeof(typename To::Stored);
    }
  }
};

CpuIsa ThisCpusIsa() {
  static const CpuIsa isa = BestCpuIsa();
  return isa;
}

// visit(type) with the type of the cache's values.
template <class Visit>
void WithDtype(KvDtype dtype, const Visit& visit) {
  switch (dtype) {
    case KvDtype::kF16:
      return visit(F16());
    case KvDtype::kBf16:
      return visit(Bf16());
    case KvDtype::kF32:
      return visit(F32());
  }
}
// The same for a wire type, which is not int8.
template <class Visit>
void WithFloatType(KvWireType type, const Visit& visit) {
  WithDtype(type == KvWireType::kF16    ? KvDtype::kF16
            : type == KvWireType::kBf16 ? KvDtype::kBf16
                                        : KvDtype::kF32,
            visit);
}

size_t WireElementBytes(KvWireType type) {
  return type == KvWireType::kF32 ? 4 : type == KvWireType::kInt8 ? 1 : 2;
}

}  // namespace

const char* KvWireTypeName(KvWireType type) { return kNames[static_cast<size_t>(type)]; }

absl::StatusOr<KvWireType> KvWireTypeFromName(absl::string_view name) {
  for (const KvWireType type : kAllKvWireTypes) {
    if (name == KvWireTypeName(type)) return type;
  }
  return absl::InvalidArgumentError(absl::StrCat("wire type '", LogSafe(name.substr(0, 32)),
                                                 "' is not one of f16, bf16, f32, "
                                                 "int8"));
}

KvWireType WireTypeOf(KvDtype dtype) {
  switch (dtype) {
    case KvDtype::kF16:
      return KvWireType::kF16;
    case KvDtype::kBf16:
      return KvWireType::kBf16;
    case KvDtype::kF32:
      break;
  }
  return KvWireType::kF32;
}

KvWireFormat::KvWireFormat(const KvLayout& layout, KvWireType type)
    : KvWireFormat(layout, type, ThisCpusIsa()) {}

KvWireFormat::KvWireFormat(const KvLayout& layout, KvWireType type, CpuIsa isa)
    : type_(type),
      dtype_(layout.dtype),
      isa_(isa),
      converts_(type != WireTypeOf(layout.dtype)),
      heads_(static_cast<size_t>(layout.kv_heads)),
      head_dim_(static_cast<size_t>(layout.head_dim)),
      value_bytes_(heads_ * head_dim_ * WireElementBytes(type)),
      scale_bytes_(type == KvWireType::kInt8 ? heads_ * sizeof(float) : 0) {}

bool KvWireFormat::Encode(const uint8_t* rows, size_t count, uint8_t* values,
                          uint8_t* scales) const {
  BATON_CHECK(converts_, "nothing to convert");
  bool sayable = true;
  WithDtype(dtype_, [&](auto from) {
    if (type_ == KvWireType::kInt8) {
      RunOn<EncodeInt8<decltype(from)>>(isa_, rows, count * heads_, head_dim_, values, scales,
                                        &sayable);
    } else {
      WithFloatType(type_, [&](auto to) {
        RunOn<Convert<decltype(from), decltype(to)>>(isa_, rows, count * heads_ * head_dim_,
                                                     values);
      });
    }
  });
  return sayable;
}

void KvWireFormat::Decode(const uint8_t* values, const uint8_t* scales, size_t count,
                          uint8_t* rows) const {
  BATON_CHECK(converts_, "nothing to convert");
  WithDtype(dtype_, [&](auto to) {
    if (type_ == KvWireType::kInt8) {
      RunOn<DecodeInt8<decltype(to)>>(isa_, values, scales, count * heads_, head_dim_, rows);
    } else {
      WithFloatType(type_, [&](auto from) {
        RunOn<Convert<decltype(from), decltype(to)>>(isa_, values, count * heads_ * head_dim_,
                                                     rows);
      });
    }
  });
}

}  // namespace baton
