#include "common/rpc/status.h"

#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

absl::Status OverTheWire(const absl::Status& status) {
  return FromGrpcStatus(ToGrpcStatus(status));
}

TEST(Status, KeepsEveryCodeAndTheMessage) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    EXPECT_EQ(OverTheWire(status), status) << code;
    EXPECT_EQ(static_cast<int>(ToGrpcStatus(status).error_code()), code);
  }
}

TEST(Status, CarriesAllDetailsTogether) {
  absl::Status status = absl::ResourceExhaustedError("the queue is full");
  status = WithRetryInfo(std::move(status), absl::Milliseconds(1250));
  status = WithErrorInfo(std::move(status), {.reason = kReasonQueueFull,
                                             .stage = kStageQueue,
                                             .worker = "p-0",
                                             .metadata = {{"bytes", "12"}}});
  status = WithQuotaFailure(std::move(status), "queue", "512 requests");
  const absl::Status there = OverTheWire(status);
  EXPECT_EQ(there, status);
  EXPECT_THAT(RetryDelay(there), Optional(absl::Milliseconds(1250)));
  EXPECT_EQ(ErrorReason(there), "QUEUE_FULL");
  const auto info = GetErrorInfo(there);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->stage, "queue");
  EXPECT_EQ(info->worker, "p-0");
  EXPECT_THAT(info->metadata, ElementsAre(std::make_pair("bytes", "12")));
}

TEST(Status, NamesEveryInvalidField) {
  const absl::Status status =
      OverTheWire(InvalidFields({{"sampling_params.temperature", "must be at least 0, is -1"},
                                 {"echo", "is not supported"}}));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("sampling_params.temperature: must be"));
  EXPECT_THAT(FieldViolations(status), ElementsAre(FieldViolation{"sampling_params.temperature",
                                                                  "must be at least 0, is -1"},
                                                   FieldViolation{"echo", "is not supported"}));
  EXPECT_TRUE(InvalidFields({}).ok());
}

TEST(Status, AnswersNothingWhereThereIsNoDetail) {
  const absl::Status plain = OverTheWire(absl::UnavailableError("gone"));
  EXPECT_EQ(RetryDelay(plain), std::nullopt);
  EXPECT_EQ(ErrorReason(plain), "");
  EXPECT_THAT(FieldViolations(plain), IsEmpty());
  EXPECT_TRUE(WithRetryInfo(absl::OkStatus(), absl::Seconds(1)).ok());
}

TEST(Status, IsReadableAsGoogleRpcStatus) {
  const grpc::Status wire =
      ToGrpcStatus(WithResourceInfo(absl::NotFoundError("no model x"), "model", "x", "unknown"));
  google::rpc::Status status;
  ASSERT_TRUE(status.ParseFromString(wire.error_details()));
  EXPECT_EQ(status.code(), 5);
  ASSERT_EQ(status.details_size(), 1);
  EXPECT_EQ(status.details(0).type_url(), "type.googleapis.com/google.rpc.ResourceInfo");
  google::rpc::ResourceInfo info;
  ASSERT_TRUE(status.details(0).UnpackTo(&info));
  EXPECT_EQ(info.resource_name(), "x");
}

TEST(Status, FitsATrailerWhateverTheText) {
  std::vector<FieldViolation> violations(100, {std::string(4000, 'f'), std::string(4000, '\xff')});
  absl::Status status = InvalidFields(std::move(violations));
  status = WithErrorInfo(std::move(status), {.reason = "R"});
  const grpc::Status wire = ToGrpcStatus(status);
  EXPECT_LE(wire.error_message().size() * 3 + wire.error_details().size() * 4 / 3, 8000u);
  EXPECT_EQ(ErrorReason(FromGrpcStatus(wire)), "R") << "the small detail is kept";
}

TEST(Status, SendsOnlyWholeUtf8) {
  const std::string text = std::string(766, 'a') + "\xe2\x82\xac\xe2\x82\xac";
  EXPECT_EQ(ToGrpcStatus(absl::InternalError(text)).error_message(), std::string(766, 'a'));
  EXPECT_EQ(ToGrpcStatus(absl::InternalError("a\xff\xe2\x82\xac\xed\xa0\x80z")).error_message(),
            "a?\xe2\x82\xac???z");
}

TEST(Status, SurvivesDetailsThatAreNoMessage) {
  const grpc::Status wire(grpc::StatusCode::INTERNAL, "m", "\x08garbage\xff\xff");
  EXPECT_EQ(FromGrpcStatus(wire), absl::InternalError("m"));
}

}  // namespace
}  // namespace baton
