// The types that KV may have on the wire, and the conversions between them and a cache's type.
//
// A row is one token's K or V in one layer, [kv_heads * head_dim]. In a float type its bytes on the
// wire are the values. In int8, fp8 and int4 they are the codes of the values, and apart from them
// go the scales of each KV head: one float32, or in int4 a float16 for each group. For each layer,
// first of K and then of V, a message has the codes of all its tokens and then the scales of all
// its tokens. The cache has the same order (common/kv/layout.h), so a cache of any of these types
// is sent as it is.
//
// Rounding gives the same bits on every CPU:
// - Float to float: rounds to nearest even (common/base/float_types.h); values that are too large
//   become infinity. It is exact to a type that holds every value of the other.
// - Float to int8 and fp8: see common/backend/kv_codes.h. A value that is not finite, or whose
//   magnitude is 2^127 or more, cannot be represented and is refused.
// - int8 and fp8 to float: code * scale in float32, then rounded as from float32.
// - Between int8 and fp8: through float32.
// - To int4: through float32, see common/base/kv_int4.h. A head with a value that is not finite,
//   or with a scale that is too large for a float16, cannot be represented and is refused.
// - From int4: the heads are rotated back in float32, then rounded as from float32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/backend/cpu/simd/isa.h"
#include "common/base/kv_type.h"
#include "common/kv/layout.h"

namespace baton {

// Converts the rows of one cache to a wire type and back. An immutable value: its functions may be
// called from any thread.
class KvWireFormat {
 public:
  // REQUIRES: TakesHeadDim(type, layout.head_dim).
  KvWireFormat(const KvLayout& layout, KvType type);
  // Converts with the given instruction set. REQUIRES: CpuHas(isa).
  KvWireFormat(const KvLayout& layout, KvType type, CpuIsa isa);

  KvType type() const { return type_; }
  // False: the bytes on the wire are those of the cache.
  bool converts() const { return converts_; }
  // Bytes of one row on the wire: its values, its scales, and both together.
  size_t value_bytes() const { return value_bytes_; }
  size_t scale_bytes() const { return scale_bytes_; }
  size_t row_bytes() const { return value_bytes_ + scale_bytes_; }
  // One block with the K and V of `tokens` tokens of one layer, as a message has them.
  KvLayout BlockOf(int tokens) const {
    return {.layers = 1,
            .kv_heads = static_cast<int>(heads_),
            .head_dim = static_cast<int>(head_dim_),
            .block_size = tokens,
            .dtype = type_};
  }

  // Converts `count` rows of the cache and their scales to `values` [count * value_bytes()] and
  // `scales` [count * scale_bytes()]. False if the wire type cannot represent a value; all bytes
  // are written then too. REQUIRES: converts().
  [[nodiscard]] bool Encode(const uint8_t* rows, const uint8_t* row_scales, size_t count,
                            uint8_t* values, uint8_t* scales) const;
  // Converts back to `rows` [count * layout.row_bytes()] and `row_scales`
  // [count * layout.scale_bytes()]. It also takes bytes that Encode never makes. REQUIRES:
  // converts().
  void Decode(const uint8_t* values, const uint8_t* scales, size_t count, uint8_t* rows,
              uint8_t* row_scales) const;

 private:
  KvType type_;
  KvType dtype_;
  CpuIsa isa_;
  bool converts_;
  size_t heads_;     // KV heads of a row
  size_t head_dim_;  // values of a head
  size_t value_bytes_;
  size_t scale_bytes_;
};

}  // namespace baton
