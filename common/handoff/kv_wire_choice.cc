#include "common/handoff/kv_wire_choice.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/base/kv_type_name.h"
#include "common/base/log.h"
#include "common/base/numerics.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

bool Takes(const internal::v1::KvShape& receiver, const std::string& wire) {
  const auto& types = receiver.wire_dtypes();
  return std::find(types.begin(), types.end(), wire) != types.end();
}

// The sender's own quantised type needs no consent: its KV has lost the precision already, not the
// wire. A receiver that lists more than one type converts, and knows all types.
bool TakesAsItIs(const internal::v1::KvShape& sender, KvType wire,
                 const internal::v1::KvShape& receiver) {
  return IsQuantised(wire) && KvTypeName(wire) == sender.dtype() && receiver.wire_dtypes_size() > 1;
}

void AddWireType(const std::string& name, internal::v1::KvShape& receiver) {
  if (!Takes(receiver, name)) receiver.add_wire_dtypes(name);
}

}  // namespace

std::string StoredNumerics(const internal::v1::KvShape& sender, KvType wire,
                           const internal::v1::KvShape& receiver) {
  const bool same = sender.numerics() == receiver.numerics() && sender.dtype() == receiver.dtype();
  // float32 represents every value of the other float types. A quantised type does not survive it,
  // since its scales are computed again and may differ.
  const auto dtype = KvTypeFromName(receiver.dtype());
  const bool lossless = KvTypeName(wire) == receiver.dtype() ||
                        (wire == KvType::kF32 && dtype.ok() && !IsQuantised(*dtype));
  if (same && lossless) return receiver.numerics();
  return Numerics::Converted(Numerics(sender.numerics()), wire, Numerics(receiver.numerics()))
      .name();
}

bool TakesWireType(const internal::v1::KvShape& sender, KvType wire,
                   const internal::v1::KvShape& receiver) {
  return Takes(receiver, KvTypeName(wire)) || TakesAsItIs(sender, wire, receiver);
}

absl::StatusOr<KvType> ChooseWireType(const internal::v1::KvShape& sender,
                                      const std::string& wanted, bool strict_kv_dtype,
                                      const internal::v1::KvShape& receiver) {
  if (strict_kv_dtype && sender.dtype() != receiver.dtype()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the prefill worker's KV cache is ", sender.dtype(), ", the decode worker's ",
                     LogSafe(receiver.dtype()),
                     ", and the prefill worker runs with --strict-kv-dtype; start "
                     "both with the same --kv-cache-dtype"));
  }
  const std::string& name = wanted == "auto" ? sender.dtype() : wanted;
  BATON_ASSIGN_OR_RETURN(const KvType wire, KvTypeFromName(name));
  if (TakesWireType(sender, wire, receiver)) return wire;
  return absl::FailedPreconditionError(
      absl::StrCat("the prefill worker sends KV as ", name, ", but the decode worker accepts only ",
                   LogSafe(absl::StrJoin(receiver.wire_dtypes(), ", ")),
                   "; check --kv-wire-dtype and --strict-kv-dtype on both workers"));
}

void SetWireTypes(const std::string& wanted, bool strict_kv_dtype,
                  internal::v1::KvShape& receiver) {
  receiver.clear_wire_dtypes();
  if (wanted != "auto") AddWireType(wanted, receiver);
  AddWireType(receiver.dtype(), receiver);
  if (strict_kv_dtype) return;
  for (const char* name : {"f32", "f16", "bf16"}) AddWireType(name, receiver);
}

}  // namespace baton
