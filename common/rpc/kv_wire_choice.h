// What two workers agree on before KV moves: its type on the wire, and what the copy is worth.
#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "baton/internal/v1/common.pb.h"
#include "common/rpc/kv_wire_type.h"

namespace baton {

// The numerics (KvShape.numerics) under which the receiver keeps what it gets from this sender over
// this wire type. They are the receiver's own where the bytes are those that it would have
// computed: same numerics on both sides, and a wire type that loses nothing.
std::string StoredNumerics(const internal::v1::KvShape& sender, KvWireType wire,
                           const internal::v1::KvShape& receiver);

// Whether the receiver takes this wire type from this sender: one that it lists, or, where it
// converts between types at all, a quantised type that is the sender's own.
bool TakesWireType(const internal::v1::KvShape& sender, KvWireType wire,
                   const internal::v1::KvShape& receiver);

// The wire type of a push. `wanted` is the sender's --kv-wire-dtype: "auto" is its KV type.
// FAILED_PRECONDITION, naming both sides, where the receiver does not take it, or where
// `strict_kv_dtype` is set and the KV types differ.
absl::StatusOr<KvWireType> ChooseWireType(const internal::v1::KvShape& sender,
                                          const std::string& wanted, bool strict_kv_dtype,
                                          const internal::v1::KvShape& receiver);

// What a receiver whose flags are these can take, best first: the type it asks for (`wanted`, not
// "auto"), its own, and, unless `strict_kv_dtype`, the float types. int8 and fp8, which lose what a
// float type has, only where it asks for them.
void SetWireTypes(const std::string& wanted, bool strict_kv_dtype, internal::v1::KvShape& receiver);

}  // namespace baton
