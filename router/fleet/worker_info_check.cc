#include "router/fleet/worker_info_check.h"

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "common/base/address.h"
#include "common/base/hash.h"
#include "common/protocol/identity.h"
#include "common/rpc/limits.h"

namespace baton {
namespace {

constexpr size_t kMostTypeBytes = 64;  // what worker.proto promises of weights_type; wire types too
constexpr size_t kMostVersionBytes = 64;
constexpr size_t kMostAddressBytes = 300;  // a host name has at most 253
constexpr size_t kMostArchitectureBytes = 256;
constexpr size_t kMostDigestBytes = 64;
constexpr size_t kMostShapeTextBytes = 256;
constexpr int kMostShapeEntries = 1024;

struct Text {
  const char* field;
  const std::string& value;
  size_t most_bytes;
};

bool Prints(const std::string& text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
}

std::string FaultOfTexts(const internal::v1::WorkerInfo& info) {
  const internal::v1::ModelIdentity& identity = info.identity();
  for (const Text& text : {Text{"name", info.name(), kMaxNameBytes},
                           Text{"version", info.version(), kMostVersionBytes},
                           Text{"address", info.address(), kMostAddressBytes},
                           Text{"weights_type", info.weights_type(), kMostTypeBytes},
                           Text{"architecture", identity.architecture(), kMostArchitectureBytes},
                           Text{"numerics", info.shape().numerics(), kMostShapeTextBytes}}) {
    if (text.value.size() > text.most_bytes) {
      return absl::StrCat("has a ", text.field, " of more than ", text.most_bytes, " bytes");
    }
    if (!Prints(text.value)) {
      return absl::StrCat("has a ", text.field, " with characters that do not print");
    }
  }
  for (const Text& digest : {Text{"weights_digest", identity.weights_digest(), kMostDigestBytes},
                             Text{"config_digest", identity.config_digest(), kMostDigestBytes}}) {
    if (digest.value.size() > digest.most_bytes) {
      return absl::StrCat("has a ", digest.field, " of more than ", digest.most_bytes, " bytes");
    }
  }
  for (const std::string& type : info.shape().wire_dtypes()) {
    if (type.size() > kMostTypeBytes) {
      return absl::StrCat("has a wire_dtype of more than ", kMostTypeBytes, " bytes");
    }
  }
  if (!info.address().empty() && !ParseHostPort(info.address()).ok()) {
    return "advertises an address that is not host:port";
  }
  return "";
}

void Cut(std::string* text, size_t most_bytes) {
  if (text->size() <= most_bytes) return;
  text->resize(most_bytes);
  text->shrink_to_fit();
}

}  // namespace

std::string WhyNeverUsed(const WorkerTarget& target, const internal::v1::WorkerInfo& info,
                         const std::string& tokenizer_digest) {
  const internal::v1::ModelIdentity& identity = info.identity();
  if (info.role() != target.role) {
    return absl::StrCat("is a ", WorkerRoleName(info.role()), " worker, not a ",
                        WorkerRoleName(target.role), " worker");
  }
  if (identity.protocol_version() != kProtocolVersion) {
    return absl::StrCat("speaks protocol version ", identity.protocol_version(), ", the router ",
                        kProtocolVersion);
  }
  if (identity.tokenizer_digest() != tokenizer_digest) {
    return absl::StrCat("has another tokenizer (", ToHex(identity.tokenizer_digest().substr(0, 6)),
                        "...) than the router (", ToHex(tokenizer_digest.substr(0, 6)),
                        "...); give both the same model");
  }
  if (std::string fault = FaultOfTexts(info); !fault.empty()) return fault;
  const absl::Status shape = ValidateShape(info.shape(), "shape");
  return shape.ok() ? "" : absl::StrCat("has an impossible shape: ", shape.message());
}

void CutTexts(internal::v1::WorkerInfo& info) {
  Cut(info.mutable_name(), kMaxNameBytes);
  Cut(info.mutable_version(), kMostVersionBytes);
  Cut(info.mutable_address(), kMostAddressBytes);
  Cut(info.mutable_weights_type(), kMostTypeBytes);
  internal::v1::ModelIdentity& identity = *info.mutable_identity();
  Cut(identity.mutable_architecture(), kMostArchitectureBytes);
  for (std::string* digest : {identity.mutable_weights_digest(), identity.mutable_config_digest(),
                              identity.mutable_tokenizer_digest()}) {
    Cut(digest, kMostDigestBytes);
  }
  internal::v1::KvShape& shape = *info.mutable_shape();
  Cut(shape.mutable_dtype(), kMostShapeTextBytes);
  Cut(shape.mutable_numerics(), kMostShapeTextBytes);
  for (std::string& type : *shape.mutable_wire_dtypes()) Cut(&type, kMostTypeBytes);
  if (shape.wire_dtypes_size() + shape.layer_states_size() <= kMostShapeEntries) return;
  // A list that is cleared keeps its memory.
  const std::unique_ptr<internal::v1::KvShape> dropped(info.release_shape());
}

}  // namespace baton
