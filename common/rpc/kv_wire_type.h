// The types that KV may have on the wire, and the way into and out of them.
//
// A row is one token's K or V in one layer, [kv_heads * head_dim]. In a float type its bytes on the
// wire are the values. In int8 and fp8 they are the codes and, apart from them, one float32 scale
// for each KV head: a message has, per layer and K or V, the codes of all its tokens, then the
// scales of all its tokens. In the cache they lie in the same way (common/kv/layout.h), so a cache
// of either type is sent as it is.
//
// Rounding, the same bits on every CPU:
// - Float to float: to nearest even (common/base/float_types.h), what is too large becomes
//   infinity; to a wider type that holds every value of the narrower one, exact.
// - Float to int8 and fp8: common/backend/kv_codes.h. What is not finite, or from 2^127 on, cannot
//   be said and is refused.
// - int8 and fp8 to float: code * scale in float32, then as from float32.
// - Between int8 and fp8: through float32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/backend/cpu/isa.h"
#include "common/kv/layout.h"

namespace baton {

enum class KvWireType : uint8_t { kF16, kBf16, kF32, kInt8, kFp8 };
inline constexpr KvWireType kAllKvWireTypes[] = {
    KvWireType::kF16, KvWireType::kBf16, KvWireType::kF32, KvWireType::kInt8, KvWireType::kFp8};

// "f16" and so on, as flags and messages spell it.
const char* KvWireTypeName(KvWireType type);
absl::StatusOr<KvWireType> KvWireTypeFromName(absl::string_view name);
// The one that carries the cache's bytes as they are.
KvWireType WireTypeOf(KvDtype dtype);

bool IsQuantised(KvWireType type);

// How the rows of one cache lie on the wire. An immutable value; its functions may be called from
// any thread.
class KvWireFormat {
 public:
  KvWireFormat(const KvLayout& layout, KvWireType type);
  // Converts with that instruction set. REQUIRES: CpuHas(isa).
  KvWireFormat(const KvLayout& layout, KvWireType type, CpuIsa isa);

  KvWireType type() const { return type_; }
  // False: the bytes on the wire are those of the cache.
  bool converts() const { return converts_; }
  // Bytes of one row on the wire: values, scales, and both.
  size_t value_bytes() const { return value_bytes_; }
  size_t scale_bytes() const { return scale_bytes_; }
  size_t row_bytes() const { return value_bytes_ + scale_bytes_; }

  // From `count` rows and their scales as the cache has them: values to [count * value_bytes()],
  // scales to [count * scale_bytes()]. False where a value cannot be said in the wire type;
  // something is written then too. REQUIRES: converts().
  [[nodiscard]] bool Encode(const uint8_t* rows, const uint8_t* row_scales, size_t count,
                            uint8_t* values, uint8_t* scales) const;
  // The way back, to [count * layout.row_bytes()] and [count * layout.scale_bytes()]. What Encode
  // never makes becomes something too. REQUIRES: converts().
  void Decode(const uint8_t* values, const uint8_t* scales, size_t count, uint8_t* rows,
              uint8_t* row_scales) const;

 private:
  KvWireType type_;
  KvDtype dtype_;
  CpuIsa isa_;
  bool converts_;
  size_t heads_;     // of a row
  size_t head_dim_;  // values of a head
  size_t value_bytes_;
  size_t scale_bytes_;
};

}  // namespace baton
