#include "common/protocol/identity.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/hash.h"
#include "common/base/kv_type_name.h"
#include "common/base/log.h"
#include "common/protocol/identity_text.h"
#include "common/protocol/layer_states.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

constexpr uint32_t kMaxLayers = 1024;
constexpr uint32_t kMaxHeads = 1024;
constexpr uint32_t kMaxHeadDim = 1024;
constexpr uint32_t kMaxBlockSize = 4096;
constexpr int kMaxWireDtypes = 8;
constexpr size_t kMaxNumericsBytes = 256;

std::string ShortHex(const std::string& digest) { return ToHex(digest).substr(0, 16); }

}  // namespace

const char* WorkerRoleName(internal::v1::WorkerRole role) {
  if (role == internal::v1::WORKER_ROLE_PREFILL) return "prefill";
  return role == internal::v1::WORKER_ROLE_DECODE ? "decode" : "unknown";
}

absl::Status CheckSameIdentity(const internal::v1::ModelIdentity& ours,
                               const internal::v1::ModelIdentity& theirs) {
  const auto mismatch = [&](absl::string_view field, absl::string_view here,
                            absl::string_view there) {
    absl::Status status = absl::FailedPreconditionError(absl::StrCat(
        "the two workers do not serve the same model: ", field, " is ", here, " on one and ", there,
        " on the other; start both with the same file and version. The first worker's model: ",
        IdentityText(ours), ", the second's: ", IdentityText(theirs)));
    status =
        WithPreconditionFailure(std::move(status), kReasonModelMismatch, field, "must be equal");
    return WithErrorInfo(std::move(status), {.reason = kReasonModelMismatch,
                                             .stage = kStageTransfer,
                                             .metadata = {{"field", std::string(field)}}});
  };
  if (ours.protocol_version() != theirs.protocol_version()) {
    return mismatch("protocol_version", absl::StrCat(ours.protocol_version()),
                    absl::StrCat(theirs.protocol_version()));
  }
  if (ours.architecture() != theirs.architecture()) {
    return mismatch("architecture", ours.architecture(), LogSafe(theirs.architecture()));
  }
  if (ours.config_digest() != theirs.config_digest()) {
    return mismatch("config_digest", ShortHex(ours.config_digest()),
                    ShortHex(theirs.config_digest()));
  }
  if (ours.weights_digest() != theirs.weights_digest()) {
    return mismatch("weights_digest", ShortHex(ours.weights_digest()),
                    ShortHex(theirs.weights_digest()));
  }
  if (ours.tokenizer_digest() != theirs.tokenizer_digest()) {
    return mismatch("tokenizer_digest", ShortHex(ours.tokenizer_digest()),
                    ShortHex(theirs.tokenizer_digest()));
  }
  return absl::OkStatus();
}

absl::Status ValidateShape(const internal::v1::KvShape& shape, absl::string_view path) {
  std::vector<FieldViolation> violations;
  const auto add = [&](absl::string_view field, std::string description) {
    violations.push_back({absl::StrCat(path, ".", field), std::move(description)});
  };
  const auto range = [&](const char* field, uint32_t value, uint32_t max) {
    if (value < 1 || value > max) {
      add(field, absl::StrCat("must be from 1 to ", max, ", is ", value));
    }
  };
  range("layers", shape.layers(), kMaxLayers);
  range("kv_heads", shape.kv_heads(), kMaxHeads);
  range("head_dim", shape.head_dim(), kMaxHeadDim);
  range("block_size", shape.block_size(), kMaxBlockSize);
  if (shape.block_size() % uint32_t{kKvPageTokens} != 0) {
    add("block_size",
        absl::StrCat("must be a multiple of ", kKvPageTokens, ", is ", shape.block_size()));
  }
  const absl::StatusOr<KvType> type = KvTypeFromName(shape.dtype());
  if (!type.ok()) {
    add("dtype", absl::StrCat("is not known: '", LogSafe(shape.dtype()), "'"));
  } else if (!TakesHeadDim(*type, shape.head_dim())) {
    add("head_dim", absl::StrCat("must be a multiple of ", kKvGroup, " with ", shape.dtype(),
                                 ", is ", shape.head_dim()));
  }
  if (shape.numerics().size() > kMaxNumericsBytes) {
    add("numerics", "is too long");
  }
  if (shape.wire_dtypes_size() > kMaxWireDtypes) {
    add("wire_dtypes", "has too many entries");
  }
  if (auto fault = LayerStatesFault(shape)) add("layer_states", *std::move(fault));
  return InvalidFields(std::move(violations));
}

}  // namespace baton
