#include "router/fleet/worker_info_check.h"

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

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

// A text of `Message`: its name for people, its bound, and whether people read it, so that it must
// print.
template <typename Message>
struct TextField {
  const char* name;
  size_t most_bytes;
  bool prints;
  const std::string& (Message::*get)() const;
  std::string* (Message::*get_mutable)();
};

using internal::v1::KvShape;
using internal::v1::ModelIdentity;
using internal::v1::WorkerInfo;

constexpr TextField<WorkerInfo> kTexts[] = {
    {"name", kMaxNameBytes, true, &WorkerInfo::name, &WorkerInfo::mutable_name},
    {"version", kMostVersionBytes, true, &WorkerInfo::version, &WorkerInfo::mutable_version},
    {"address", kMostAddressBytes, true, &WorkerInfo::address, &WorkerInfo::mutable_address},
    {"weights_type", kMostTypeBytes, true, &WorkerInfo::weights_type,
     &WorkerInfo::mutable_weights_type}};
constexpr TextField<ModelIdentity> kIdentityTexts[] = {
    {"architecture", kMostArchitectureBytes, true, &ModelIdentity::architecture,
     &ModelIdentity::mutable_architecture},
    {"weights_digest", kMostDigestBytes, false, &ModelIdentity::weights_digest,
     &ModelIdentity::mutable_weights_digest},
    {"config_digest", kMostDigestBytes, false, &ModelIdentity::config_digest,
     &ModelIdentity::mutable_config_digest},
    {"tokenizer_digest", kMostDigestBytes, false, &ModelIdentity::tokenizer_digest,
     &ModelIdentity::mutable_tokenizer_digest},
    {"metadata_digest", kMostDigestBytes, false, &ModelIdentity::metadata_digest,
     &ModelIdentity::mutable_metadata_digest},
    {"sample_digest", kMostDigestBytes, false, &ModelIdentity::sample_digest,
     &ModelIdentity::mutable_sample_digest}};
constexpr TextField<KvShape> kShapeTexts[] = {
    {"dtype", kMostShapeTextBytes, true, &KvShape::dtype, &KvShape::mutable_dtype},
    {"numerics", kMostShapeTextBytes, true, &KvShape::numerics, &KvShape::mutable_numerics}};

bool Prints(const std::string& text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
}

// Returns the first fault of the texts of a message; empty if there is none.
template <typename Message>
std::string FaultOf(const Message& message, absl::Span<const TextField<Message>> fields) {
  for (const TextField<Message>& field : fields) {
    const std::string& text = (message.*field.get)();
    if (text.size() > field.most_bytes) {
      return absl::StrCat("has a ", field.name, " of more than ", field.most_bytes, " bytes");
    }
    if (field.prints && !Prints(text)) {
      return absl::StrCat("has a ", field.name, " with characters that do not print");
    }
  }
  return "";
}

std::string FaultOfTexts(const WorkerInfo& info) {
  for (const std::string& fault :
       {FaultOf<WorkerInfo>(info, kTexts), FaultOf<ModelIdentity>(info.identity(), kIdentityTexts),
        FaultOf<KvShape>(info.shape(), kShapeTexts)}) {
    if (!fault.empty()) return fault;
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

template <typename Message>
void CutAll(Message& message, absl::Span<const TextField<Message>> fields) {
  for (const TextField<Message>& field : fields) {
    Cut((message.*field.get_mutable)(), field.most_bytes);
  }
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
  KvShape& shape = *info.mutable_shape();
  CutAll<WorkerInfo>(info, kTexts);
  CutAll<ModelIdentity>(*info.mutable_identity(), kIdentityTexts);
  CutAll<KvShape>(shape, kShapeTexts);
  for (std::string& type : *shape.mutable_wire_dtypes()) Cut(&type, kMostTypeBytes);
  if (shape.wire_dtypes_size() + shape.layer_states_size() <= kMostShapeEntries) return;
  // A list that is cleared keeps its memory.
  const std::unique_ptr<KvShape> dropped(info.release_shape());
}

}  // namespace baton
