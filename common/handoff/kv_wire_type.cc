#include "common/handoff/kv_wire_type.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "common/backend/cpu/simd/kv_int4_kernel.h"
#include "common/backend/cpu/simd/simd_portable.h"
#include "common/backend/kv_codes.h"
#include "common/base/check.h"
#include "common/base/float_types.h"

namespace baton {
namespace {

// The types of the cache and of the wire. Each widens an element to float32; those without scales
// also narrow it back.
struct F16 {
  static constexpr KvType kType = KvType::kF16;
  using Stored = uint16_t;
  [[gnu::always_inline]] static float Widen(uint16_t bits) { return F16ToF32(bits); }
  [[gnu::always_inline]] static uint16_t Narrow(float value) { return F32ToF16(value); }
};
struct Bf16 {
  static constexpr KvType kType = KvType::kBf16;
  using Stored = uint16_t;
  [[gnu::always_inline]] static float Widen(uint16_t bits) { return Bf16ToF32(bits); }
  [[gnu::always_inline]] static uint16_t Narrow(float value) { return F32ToBf16(value); }
};
struct F32 {
  static constexpr KvType kType = KvType::kF32;
  using Stored = float;
  [[gnu::always_inline]] static float Widen(float value) { return value; }
  [[gnu::always_inline]] static float Narrow(float value) { return value; }
};

template <class Code, KvType type>
struct Codes {
  static constexpr KvType kType = type;
  using Stored = Code;
  [[gnu::always_inline]] static float Widen(Code code) { return code.Value(); }
};

// Loads and stores need no alignment, because a slice of the network begins anywhere.
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

template <class From>
inline constexpr bool kIsCode = sizeof(typename From::Stored) == 1;

// Element `i` of the head at `values`, as float32.
template <class From>
[[gnu::always_inline]] inline float WidenAt(const uint8_t* values, size_t i, float scale) {
  const float value = From::Widen(LoadAt<typename From::Stored>(values, i));
  return kIsCode<From> ? value * scale : value;
}

// Writes the codes of a head and its scale. Returns the bits of its largest magnitude.
template <class From, class Code>
[[gnu::always_inline]] inline int32_t QuantiseHead(const uint8_t* from, float from_scale,
                                                   size_t head_dim, uint8_t* to, float* scale) {
  int32_t most = 0;
  for (size_t i = 0; i < head_dim; ++i) {
    most = std::max(most, MagnitudeBits(WidenAt<From>(from, i, from_scale)));
  }
  *scale = KvScale<Code>(most);
  const float divisor = KvDivisor(*scale);
  for (size_t i = 0; i < head_dim; ++i) {
    to[i] = KvCode<Code>(WidenAt<From>(from, i, from_scale), divisor).bits;
  }
  return most;
}

// Converts heads. `sayable` becomes false if the target type cannot represent some head's
// values.
template <class From, class To>
struct Convert {
  [[gnu::always_inline]] static void Run(const uint8_t* from, const uint8_t* from_scales,
                                         size_t heads, size_t head_dim, uint8_t* to,
                                         uint8_t* to_scales, bool* sayable) {
    for (size_t head = 0; head < heads; ++head) {
      const float from_scale = kIsCode<From> ? LoadAt<float>(from_scales, head) : 1;
      if constexpr (kIsCode<To>) {
        float scale = 0;
        const int32_t most =
            QuantiseHead<From, typename To::Stored>(from, from_scale, head_dim, to, &scale);
        *sayable = *sayable && most < kKvSaturation;
        StoreAt(scale, to_scales, head);
      } else {
        for (size_t i = 0; i < head_dim; ++i) {
          StoreAt(To::Narrow(WidenAt<From>(from, i, from_scale)), to, i);
        }
      }
      from += head_dim * sizeof(typename From::Stored);
      to += head_dim * sizeof(typename To::Stored);
    }
  }
};

// Whole heads, rotated: kv_int4.h.
struct Int4 {
  static constexpr KvType kType = KvType::kInt4;
};

// Converts heads to int4 or from it, through float32.
template <class From, class To>
struct ConvertInt4 {
  [[gnu::always_inline]] static void Run(const uint8_t* from, const uint8_t* from_scales,
                                         size_t heads, size_t head_dim, uint8_t* to,
                                         uint8_t* to_scales, bool* sayable) {
    alignas(64) float head[kMostInt4HeadDim];
    auto* const head_bytes = reinterpret_cast<uint8_t*>(head);
    const int dim = static_cast<int>(head_dim);
    for (; heads > 0; --heads) {
      if constexpr (From::kType == KvType::kInt4) {
        KvInt4Kernel<Portable>::LoadHead(dim, from, from_scales, head);
        Convert<F32, To>::Run(head_bytes, nullptr, 1, head_dim, to, to_scales, sayable);
      } else {
        Convert<From, F32>::Run(from, from_scales, 1, head_dim, head_bytes, nullptr, sayable);
        const bool stored = KvInt4Kernel<Portable>::StoreHead(dim, head, to, to_scales);
        *sayable = *sayable && stored;
      }
      from += KvHeadBytes(From::kType, head_dim);
      from_scales += KvScaleBytes(From::kType, head_dim);
      to += KvHeadBytes(To::kType, head_dim);
      to_scales += KvScaleBytes(To::kType, head_dim);
    }
  }
};

template <class From, class To>
using ConversionOf = std::conditional_t<From::kType == KvType::kInt4 || To::kType == KvType::kInt4,
                                        ConvertInt4<From, To>, Convert<From, To>>;

// Calls visit(type) with the type above that stands for `dtype`.
template <class Visit>
void WithDtype(KvType dtype, const Visit& visit) {
  switch (dtype) {
    case KvType::kF16:
      return visit(F16());
    case KvType::kBf16:
      return visit(Bf16());
    case KvType::kF32:
      return visit(F32());
    case KvType::kInt8:
      return visit(Codes<KvInt8, KvType::kInt8>());
    case KvType::kFp8:
      return visit(Codes<KvFp8, KvType::kFp8>());
    case KvType::kInt4:
      return visit(Int4());
  }
}

struct Values {
  const uint8_t* from;
  const uint8_t* from_scales;
  uint8_t* to;
  uint8_t* to_scales;
};

bool ConvertHeads(CpuIsa isa, KvType from, KvType to, const Values& values, size_t heads,
                  size_t head_dim) {
  if (!IsQuantised(from) && !IsQuantised(to)) {
    head_dim *= heads;  // without scales all heads are one long loop
    heads = 1;
  }
  bool sayable = true;
  WithDtype(from, [&](auto source) {
    WithDtype(to, [&](auto target) {
      using Source = decltype(source);
      using Target = decltype(target);
      if constexpr (!std::is_same_v<Source, Target>) {
        RunOn<ConversionOf<Source, Target>>(isa, values.from, values.from_scales, heads, head_dim,
                                            values.to, values.to_scales, &sayable);
      }
    });
  });
  return sayable;
}

}  // namespace

KvWireFormat::KvWireFormat(const KvLayout& layout, KvType type)
    : KvWireFormat(layout, type, BestCpuIsa()) {}

KvWireFormat::KvWireFormat(const KvLayout& layout, KvType type, CpuIsa isa)
    : type_(type),
      dtype_(layout.dtype),
      isa_(isa),
      converts_(type != layout.dtype),
      heads_(static_cast<size_t>(layout.kv_heads)),
      head_dim_(static_cast<size_t>(layout.head_dim)) {
  const bool int4 = type == KvType::kInt4 || layout.dtype == KvType::kInt4;
  BATON_CHECK(!int4 || (TakesHeadDim(KvType::kInt4, head_dim_) && head_dim_ <= kMostInt4HeadDim),
              "int4 must support the head dimension", head_dim_);
  KvLayout wire = layout;
  wire.dtype = type;
  value_bytes_ = wire.row_bytes();
  scale_bytes_ = wire.scale_bytes();
}

bool KvWireFormat::Encode(const uint8_t* rows, const uint8_t* row_scales, size_t count,
                          uint8_t* values, uint8_t* scales) const {
  BATON_CHECK(converts_, "only a format that converts encodes rows");
  return ConvertHeads(isa_, dtype_, type_, {rows, row_scales, values, scales}, count * heads_,
                      head_dim_);
}

void KvWireFormat::Decode(const uint8_t* values, const uint8_t* scales, size_t count, uint8_t* rows,
                          uint8_t* row_scales) const {
  BATON_CHECK(converts_, "only a format that converts decodes rows");
  // A value that the cache's type cannot represent becomes what the append would have made of it.
  (void)ConvertHeads(isa_, type_, dtype_, {values, scales, rows, row_scales}, count * heads_,
                     head_dim_);
}

}  // namespace baton
