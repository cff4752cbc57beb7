#include "router/request/account_check.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/kv_type_name.h"
#include "common/base/log.h"

namespace baton {
namespace {

constexpr int64_t kLongestSeconds = 24 * 3600;
constexpr int32_t kNanosInSecond = 1'000'000'000;
constexpr uint64_t kMostBytes = uint64_t{1} << 50;
constexpr int kMostSpans = 256;  // as prefill.proto has it

// Collects the first fault of an account.
class Account {
 public:
  explicit Account(const char* message) : message_(message) {}

  void Duration(const char* field, const google::protobuf::Duration& value) {
    const bool whole = value.seconds() >= 0 && value.nanos() >= 0 && value.nanos() < kNanosInSecond;
    if (whole && value.seconds() < kLongestSeconds) return;
    Fail(field, absl::StrCat("must be from 0 to a day, is ", value.seconds(), " s and ",
                             value.nanos(), " ns"));
  }
  void Bytes(const char* field, uint64_t value) {
    if (value < kMostBytes) return;
    Fail(field, absl::StrCat("must be less than ", kMostBytes, ", is ", value));
  }
  void Spans(const char* field, int count) {
    if (count <= kMostSpans) return;
    Fail(field, absl::StrCat("must be at most ", kMostSpans, ", are ", count));
  }
  void KnownType(const char* field, const std::string& name) {
    if (name.empty() || KvTypeFromName(name).ok()) return;
    Fail(field, absl::StrCat("is not a KV type: '", LogSafe(name), "'"));
  }
  void Fail(const char* field, const std::string& what) {
    if (!fault_.has_value()) fault_ = absl::StrCat(message_, ".", field, " ", what);
  }
  std::optional<std::string> fault() && { return std::move(fault_); }

 private:
  const char* const message_;
  std::optional<std::string> fault_;
};

}  // namespace

std::optional<std::string> AccountFault(const internal::v1::PrefillResponse& message) {
  if (!message.has_finished()) return std::nullopt;
  const internal::v1::PrefillFinished& told = message.finished();
  Account account("PrefillFinished");
  account.Duration("queue", told.queue());
  account.Duration("compute", told.compute());
  account.Duration("transfer", told.transfer());
  account.Duration("exposed_transfer", told.exposed_transfer());
  account.Bytes("bytes_sent", told.bytes_sent());
  account.Bytes("bytes_saved", told.bytes_saved());
  account.Bytes("bytes_resent", told.bytes_resent());
  account.KnownType("wire_dtype", told.wire_dtype());
  account.Spans("chunks", told.chunks_size());
  account.Spans("transfers", told.transfers_size());
  for (const internal::v1::TransferSpan& span : told.transfers()) {
    account.Bytes("transfers.bytes", span.bytes());
    if (span.end_us() < span.begin_us()) {
      account.Fail("transfers.end_us", "must not be before begin_us");
    }
  }
  return std::move(account).fault();
}

std::optional<std::string> AccountFault(const internal::v1::DecodeResponse& message) {
  if (!message.has_finished()) return std::nullopt;
  const internal::v1::DecodeFinished& told = message.finished();
  Account account("DecodeFinished");
  account.Duration("queue", told.queue());
  account.Duration("decode", told.decode());
  account.Duration("prefill_queue", told.prefill_queue());
  account.Duration("prefill", told.prefill());
  return std::move(account).fault();
}

}  // namespace baton
