#include "router/request/account_check.h"

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using internal::v1::DecodeFinished;
using internal::v1::DecodeResponse;
using internal::v1::PrefillFinished;
using internal::v1::PrefillResponse;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kDay = 24 * 3600;

// An account as a worker gives it that has pushed 256 messages.
PrefillResponse HonestPrefill() {
  PrefillResponse message;
  PrefillFinished& told = *message.mutable_finished();
  for (auto* duration : {told.mutable_queue(), told.mutable_compute(), told.mutable_transfer(),
                         told.mutable_exposed_transfer()}) {
    duration->set_seconds(kDay - 1);
    duration->set_nanos(999'999'999);
  }
  told.set_bytes_sent(uint64_t{1} << 49);
  told.set_bytes_saved(1);
  told.set_bytes_resent(1);
  told.set_messages(UINT32_MAX);
  told.set_wire_dtype("f16");
  for (int i = 0; i < 256; ++i) {
    told.add_chunks()->set_end_us(UINT32_MAX);
    told.add_transfers()->set_end_us(UINT32_MAX);
  }
  return message;
}

DecodeResponse HonestDecode() {
  DecodeResponse message;
  DecodeFinished& told = *message.mutable_finished();
  told.mutable_decode()->set_seconds(kDay - 1);
  told.set_preemptions(UINT32_MAX);
  return message;
}

std::string FaultOf(const std::function<void(PrefillFinished&)>& forge) {
  PrefillResponse message = HonestPrefill();
  forge(*message.mutable_finished());
  return AccountFault(message).value_or("");
}

std::string FaultOfDecode(const std::function<void(DecodeFinished&)>& forge) {
  DecodeResponse message = HonestDecode();
  forge(*message.mutable_finished());
  return AccountFault(message).value_or("");
}

TEST(AccountCheck, WhatAWorkerMayTellPasses) {
  EXPECT_EQ(AccountFault(HonestPrefill()).value_or(""), "");
  EXPECT_EQ(AccountFault(HonestDecode()).value_or(""), "");
  PrefillResponse nothing_pushed;
  nothing_pushed.mutable_finished();
  EXPECT_EQ(AccountFault(nothing_pushed).value_or(""), "");
  PrefillResponse no_account;
  no_account.mutable_first_token();
  EXPECT_EQ(AccountFault(no_account).value_or(""), "");
  EXPECT_EQ(AccountFault(DecodeResponse()).value_or(""), "");
}

// The author of a new field decides here which values it may have.
TEST(AccountCheck, EveryFieldThatHasNoBoundOfItsOwnIsCheckedAndNamed) {
  const auto too_long = [](google::protobuf::Duration* duration) { duration->set_seconds(kDay); };
  const auto negative = [](google::protobuf::Duration* duration) { duration->set_nanos(-1); };
  EXPECT_THAT(FaultOf([&](PrefillFinished& told) { too_long(told.mutable_queue()); }),
              StartsWith("PrefillFinished.queue must be from 0 to a day"));
  EXPECT_THAT(FaultOf([&](PrefillFinished& told) { negative(told.mutable_compute()); }),
              StartsWith("PrefillFinished.compute "));
  EXPECT_THAT(
      FaultOf([](PrefillFinished& told) { told.mutable_transfer()->set_seconds(INT64_MAX); }),
      StartsWith("PrefillFinished.transfer "));
  EXPECT_THAT(
      FaultOf([](PrefillFinished& told) { told.mutable_exposed_transfer()->set_seconds(-1); }),
      StartsWith("PrefillFinished.exposed_transfer "));
  EXPECT_THAT(FaultOf([](PrefillFinished& told) { told.set_bytes_sent(UINT64_MAX); }),
              StartsWith("PrefillFinished.bytes_sent must be less than"));
  EXPECT_THAT(FaultOf([](PrefillFinished& told) { told.set_bytes_saved(UINT64_MAX); }),
              StartsWith("PrefillFinished.bytes_saved "));
  EXPECT_THAT(FaultOf([](PrefillFinished& told) { told.set_bytes_resent(UINT64_MAX); }),
              StartsWith("PrefillFinished.bytes_resent "));
  EXPECT_THAT(FaultOf([](PrefillFinished& told) { told.set_wire_dtype("f17"); }),
              HasSubstr("wire_dtype is not a KV type: 'f17'"));
  EXPECT_THAT(FaultOf([](PrefillFinished& told) { told.add_chunks(); }),
              HasSubstr("chunks must be at most 256, are 257"));
  EXPECT_THAT(FaultOf([](PrefillFinished& told) { told.add_transfers(); }),
              HasSubstr("transfers must be at most 256, are 257"));
  EXPECT_THAT(
      FaultOf([](PrefillFinished& told) { told.mutable_transfers(9)->set_bytes(UINT64_MAX); }),
      HasSubstr("transfers.bytes "));
  EXPECT_THAT(FaultOf([](PrefillFinished& told) {
                told.mutable_transfers(9)->set_begin_us(2);
                told.mutable_transfers(9)->set_end_us(1);
              }),
              HasSubstr("transfers.end_us "));
  EXPECT_EQ(PrefillFinished::descriptor()->field_count(), 11);

  EXPECT_THAT(FaultOfDecode([&](DecodeFinished& told) { too_long(told.mutable_queue()); }),
              StartsWith("DecodeFinished.queue "));
  EXPECT_THAT(FaultOfDecode([&](DecodeFinished& told) { negative(told.mutable_decode()); }),
              StartsWith("DecodeFinished.decode "));
  EXPECT_THAT(FaultOfDecode([&](DecodeFinished& told) { too_long(told.mutable_prefill_queue()); }),
              StartsWith("DecodeFinished.prefill_queue "));
  EXPECT_THAT(FaultOfDecode([&](DecodeFinished& told) { negative(told.mutable_prefill()); }),
              StartsWith("DecodeFinished.prefill "));
  EXPECT_EQ(DecodeFinished::descriptor()->field_count(), 7);
}

TEST(AccountCheck, AFaultIsShortHoweverLongTheFieldIs) {
  const std::string fault =
      FaultOf([](PrefillFinished& told) { told.set_wire_dtype(std::string(15 << 20, '\x1b')); });
  EXPECT_LT(fault.size(), 2000u);
  EXPECT_THAT(fault, HasSubstr("\\u001b"));
}

}  // namespace
}  // namespace baton
