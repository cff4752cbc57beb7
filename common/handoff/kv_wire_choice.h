// The agreement of two workers before a push: the type of KV on the wire, and the numerics of the
// KV that the receiver stores.
#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "baton/internal/v1/common.pb.h"
#include "common/handoff/kv_wire_type.h"

namespace baton {

// The numerics (KvShape.numerics) under which the receiver keeps the KV that it gets from this
// sender over this wire type. They are the receiver's own where the bytes are those that it would
// have computed: both sides have the same numerics, and the wire type loses nothing.
std::string StoredNumerics(const internal::v1::KvShape& sender, KvType wire,
                           const internal::v1::KvShape& receiver);

// Whether the receiver takes this wire type from this sender. It takes the types that it lists. A
// receiver that converts between types also takes a quantised type that is the sender's own.
bool TakesWireType(const internal::v1::KvShape& sender, KvType wire,
                   const internal::v1::KvShape& receiver);

// Chooses the wire type of a push. `wanted` is the sender's --kv-wire-dtype; "auto" means its KV
// type. FAILED_PRECONDITION, naming both sides, if the receiver does not take that type, or
// where `strict_kv_dtype` is set and the KV types differ.
absl::StatusOr<KvType> ChooseWireType(const internal::v1::KvShape& sender,
                                      const std::string& wanted, bool strict_kv_dtype,
                                      const internal::v1::KvShape& receiver);

// Lists in `receiver` the wire types that a receiver with these flags takes, best first: the type
// that it asks for (`wanted`, unless "auto"), its own, and, unless `strict_kv_dtype`, the float
// types. It takes int8 and fp8, which lose precision of a float type, only if it asks for them
// or has that KV type itself.
void SetWireTypes(const std::string& wanted, bool strict_kv_dtype, internal::v1::KvShape& receiver);

}  // namespace baton
