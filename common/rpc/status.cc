#include "common/rpc/status.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

#include "common/base/utf8.h"
#include "common/rpc/duration.h"

namespace baton {
namespace {

// gRPC refuses trailers over 8 KiB. A trailer has the message twice, once with up to three
// characters for each byte, and the details in base64.
constexpr size_t kMaxMessageBytesInTrailer = 768;
constexpr size_t kMaxDetailBytesInTrailer = 3072;
constexpr size_t kMaxViolations = 16;
constexpr char kTypeUrlPrefix[] = "type.googleapis.com/";
constexpr char kDomain[] = "baton";
constexpr char kStageKey[] = "stage";
constexpr char kWorkerKey[] = "worker";

template <typename Message>
std::string TypeUrl() {
  return absl::StrCat(kTypeUrlPrefix, Message::descriptor()->full_name());
}

template <typename Message>
absl::Status WithDetail(absl::Status status, const Message& detail) {
  if (!status.ok()) status.SetPayload(TypeUrl<Message>(), absl::Cord(detail.SerializeAsString()));
  return status;
}

template <typename Message>
std::optional<Message> Detail(const absl::Status& status) {
  const auto payload = status.GetPayload(TypeUrl<Message>());
  Message detail;
  if (!payload || !detail.ParseFromString(std::string(*payload))) return std::nullopt;
  return detail;
}

// The beginning of `text`, at most `max_bytes` of whole UTF-8 characters; invalid bytes become '?'.
std::string Utf8Prefix(absl::string_view text, size_t max_bytes) {
  std::string result;
  while (!text.empty()) {
    const Utf8Unit unit = NextUtf8Unit(text);
    const bool good = unit.kind == Utf8Unit::Kind::kCharacter;
    const size_t size = good ? unit.size : 1;
    if (result.size() + size > max_bytes) break;
    if (good) {
      result.append(text.data(), size);
    } else {
      result.push_back('?');
    }
    text.remove_prefix(size);
  }
  return result;
}

std::string SafeText(absl::string_view text) { return Utf8Prefix(text, 512); }

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::vector<std::pair<std::string, std::string>> details;
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    details.emplace_back(std::string(url), std::string(payload));
  });
  std::sort(details.begin(), details.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.second.size(), a.first) < std::make_pair(b.second.size(), b.first);
  });

  const std::string message = Utf8Prefix(status.message(), kMaxMessageBytesInTrailer);
  google::rpc::Status rpc_status;
  rpc_status.set_code(static_cast<int>(status.code()));
  rpc_status.set_message(message);
  size_t total = 0;
  for (auto& [url, payload] : details) {
    total += url.size() + payload.size();
    if (total > kMaxDetailBytesInTrailer) break;
    google::protobuf::Any& any = *rpc_status.add_details();
    any.set_type_url(std::move(url));
    any.set_value(std::move(payload));
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message,
                      rpc_status.details_size() > 0 ? rpc_status.SerializeAsString() : "");
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const int code = status.error_code();
  absl::Status result(code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated)
                          ? static_cast<absl::StatusCode>(code)
                          : absl::StatusCode::kUnknown,
                      status.error_message());
  google::rpc::Status rpc_status;
  if (!status.error_details().empty() && rpc_status.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& any : rpc_status.details()) {
      result.SetPayload(any.type_url(), absl::Cord(any.value()));
    }
  }
  return result;
}

absl::Status InvalidField(absl::string_view field, absl::string_view description) {
  return InvalidFields({{std::string(field), std::string(description)}});
}

absl::Status InvalidFields(std::vector<FieldViolation> violations) {
  if (violations.empty()) return absl::OkStatus();
  if (violations.size() > kMaxViolations) violations.resize(kMaxViolations);
  google::rpc::BadRequest detail;
  std::string message;
  for (const FieldViolation& violation : violations) {
    absl::StrAppend(&message, message.empty() ? "" : "; ", violation.field, ": ",
                    violation.description);
    auto& entry = *detail.add_field_violations();
    entry.set_field(SafeText(violation.field));
    entry.set_description(SafeText(violation.description));
  }
  return WithDetail(absl::InvalidArgumentError(message), detail);
}

std::vector<FieldViolation> FieldViolations(const absl::Status& status) {
  std::vector<FieldViolation> violations;
  const auto detail = Detail<google::rpc::BadRequest>(status);
  if (!detail) return violations;
  for (const auto& entry : detail->field_violations()) {
    violations.push_back({entry.field(), entry.description()});
  }
  return violations;
}

absl::Status WithRetryInfo(absl::Status status, absl::Duration delay) {
  google::rpc::RetryInfo detail;
  *detail.mutable_retry_delay() = DurationToProto(delay);
  return WithDetail(std::move(status), detail);
}

std::optional<absl::Duration> RetryDelay(const absl::Status& status) {
  const auto detail = Detail<google::rpc::RetryInfo>(status);
  if (!detail) return std::nullopt;
  return DurationFromProto(detail->retry_delay());
}

absl::Status WithErrorInfo(absl::Status status, const ErrorInfo& info) {
  google::rpc::ErrorInfo detail;
  detail.set_reason(SafeText(info.reason));
  detail.set_domain(kDomain);
  auto& metadata = *detail.mutable_metadata();
  for (const auto& [key, value] : info.metadata) metadata[SafeText(key)] = SafeText(value);
  if (!info.stage.empty()) metadata[kStageKey] = SafeText(info.stage);
  if (!info.worker.empty()) metadata[kWorkerKey] = SafeText(info.worker);
  return WithDetail(std::move(status), detail);
}

std::optional<ErrorInfo> GetErrorInfo(const absl::Status& status) {
  const auto detail = Detail<google::rpc::ErrorInfo>(status);
  if (!detail) return std::nullopt;
  ErrorInfo info;
  info.reason = detail->reason();
  for (const auto& [key, value] : detail->metadata()) {
    if (key == kStageKey) {
      info.stage = value;
    } else if (key == kWorkerKey) {
      info.worker = value;
    } else {
      info.metadata.emplace_back(key, value);
    }
  }
  std::sort(info.metadata.begin(), info.metadata.end());
  return info;
}

std::string ErrorReason(const absl::Status& status) {
  const auto detail = Detail<google::rpc::ErrorInfo>(status);
  return detail ? detail->reason() : "";
}

absl::Status WithQuotaFailure(absl::Status status, absl::string_view subject,
                              absl::string_view description) {
  google::rpc::QuotaFailure detail;
  auto& violation = *detail.add_violations();
  violation.set_subject(SafeText(subject));
  violation.set_description(SafeText(description));
  return WithDetail(std::move(status), detail);
}

absl::Status WithResourceInfo(absl::Status status, absl::string_view type, absl::string_view name,
                              absl::string_view description) {
  google::rpc::ResourceInfo detail;
  detail.set_resource_type(SafeText(type));
  detail.set_resource_name(SafeText(name));
  detail.set_description(SafeText(description));
  return WithDetail(std::move(status), detail);
}

absl::Status WithPreconditionFailure(absl::Status status, absl::string_view type,
                                     absl::string_view subject, absl::string_view description) {
  google::rpc::PreconditionFailure detail;
  auto& violation = *detail.add_violations();
  violation.set_type(SafeText(type));
  violation.set_subject(SafeText(subject));
  violation.set_description(SafeText(description));
  return WithDetail(std::move(status), detail);
}

}  // namespace baton
