#include "common/rpc/outbox.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace baton {
namespace {

struct RecordedCall {
  void StartWrite(const std::string* message) { written.push_back(*message); }
  void Finish(const grpc::Status& status) { ends.push_back(status.error_message()); }
  std::vector<std::string> written, ends;
};

TEST(Outbox, WritesOneMessageAtATimeInOrderAndThenTheEnd) {
  Outbox<std::string> outbox;
  RecordedCall call;
  EXPECT_EQ(outbox.WriteNext(call), nullptr) << "nothing is there";
  for (const char* message : {"a", "b", "c"}) outbox.Push(message);
  const std::string* writing = outbox.WriteNext(call);
  ASSERT_NE(writing, nullptr);
  EXPECT_EQ(*writing, "a");
  EXPECT_EQ(outbox.WriteNext(call), nullptr) << "it is being written";
  outbox.End(grpc::Status(grpc::StatusCode::ABORTED, "first"));
  outbox.End(grpc::Status(grpc::StatusCode::ABORTED, "second"));
  outbox.Push("too late");
  for (const size_t written : {2u, 3u, 3u}) {
    EXPECT_FALSE(outbox.finished());
    outbox.Written();
    outbox.WriteNext(call);
    EXPECT_EQ(call.written.size(), written);
  }
  EXPECT_TRUE(outbox.finished());
  EXPECT_EQ(call.written, (std::vector<std::string>{"a", "b", "c"}));
  outbox.WriteNext(call);
  EXPECT_EQ(call.ends, std::vector<std::string>{"first"}) << "it ends once";
}

TEST(Outbox, WhatWaitsCanBeChangedAndDroppedButNotWhatIsBeingWritten) {
  Outbox<std::string> outbox;
  RecordedCall call;
  outbox.Push("a");
  ASSERT_NE(outbox.last(), nullptr);
  outbox.WriteNext(call);
  EXPECT_EQ(outbox.last(), nullptr);
  outbox.Push("b");
  outbox.Push("c");
  *outbox.last() += "d";
  outbox.Written();
  outbox.WriteNext(call);
  EXPECT_EQ(*outbox.last(), "cd");
  outbox.DropLast();
  EXPECT_EQ(outbox.last(), nullptr);
  outbox.Push("e");
  outbox.DropAll();
  outbox.End(grpc::Status::OK);
  outbox.WriteNext(call);
  EXPECT_TRUE(call.ends.empty()) << "b is being written";
  outbox.Written();
  outbox.WriteNext(call);
  EXPECT_EQ(call.ends.size(), 1u);
  EXPECT_EQ(call.written, (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace baton
