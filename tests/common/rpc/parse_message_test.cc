#include "common/rpc/parse_message.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "baton/internal/v1/decode.pb.h"
#include "baton/v1/generation.pb.h"
#include "common/rpc/limits.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr char kNoUtf8[] = "gr\xfc\xdf";  // text in Latin-1

// Silences protobuf, which logs each string that is not UTF-8.
class ParseMessageTest : public ::testing::Test {
 protected:
  ParseMessageTest() : log_handler_(google::protobuf::SetLogHandler(nullptr)) {}
  ~ParseMessageTest() override { google::protobuf::SetLogHandler(log_handler_); }

  // Parses `bytes` in slices of up to `slice_bytes`.
  static absl::Status Parse(const std::string& bytes, Message& message, size_t slice_bytes = 7) {
    std::vector<grpc::Slice> slices;
    for (size_t at = 0; at < bytes.size(); at += slice_bytes) {
      slices.emplace_back(bytes.substr(at, slice_bytes));
    }
    if (slices.empty()) slices.emplace_back();
    grpc::ByteBuffer buffer(slices.data(), slices.size());
    return ParseMessage(buffer, message);
  }
  // The field that the error names. Empty if it names none; its message then says what is wrong.
  static std::string FieldAtFault(const std::string& bytes) {
    v1::GenerateRequest request;
    const absl::Status status = Parse(bytes, request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    const std::vector<FieldViolation> violations = FieldViolations(status);
    EXPECT_LE(violations.size(), 1u);
    EXPECT_FALSE(status.message().empty());
    return violations.empty() ? "" : violations[0].field;
  }

 private:
  google::protobuf::LogHandler* const log_handler_;
};

TEST_F(ParseMessageTest, NamesTheFieldThatIsNotUtf8) {
  v1::GenerateRequest request;
  request.set_prompt(kNoUtf8);
  EXPECT_EQ(FieldAtFault(request.SerializeAsString()), "prompt");
  request.set_prompt("a");
  request.mutable_sampling_params()->add_stop("b");
  request.mutable_sampling_params()->add_stop(kNoUtf8);
  EXPECT_EQ(FieldAtFault(request.SerializeAsString()), "sampling_params.stop[1]");
  request.clear_sampling_params();
  for (int i = 0; i < 3; ++i) request.mutable_chat()->add_messages()->set_role("user");
  request.mutable_chat()->mutable_messages(2)->set_content(std::string("a") + kNoUtf8);
  EXPECT_EQ(FieldAtFault(request.SerializeAsString()), "chat.messages[2].content");
  const absl::Status status = Parse(request.SerializeAsString(), request);
  EXPECT_EQ(status.message(), "chat.messages[2].content: must be UTF-8, its byte 3 is not");
}

TEST_F(ParseMessageTest, NamesWhereTheMessageIsCutOff) {
  v1::GenerateRequest request;
  request.mutable_chat()->add_messages()->set_content("0123456789");
  const std::string bytes = request.SerializeAsString();
  EXPECT_EQ(FieldAtFault(bytes.substr(0, bytes.size() - 3)), "chat");
  EXPECT_EQ(FieldAtFault(std::string("\x0a\x05"
                                     "abc")),
            "request_id");
  EXPECT_EQ(FieldAtFault(std::string("\x2a\x04\x0a\x02\x12\x07", 6)), "chat.messages[0].content");
  EXPECT_EQ(FieldAtFault(std::string("\x22\x03\x0a\x01\x80", 5)), "prompt_token_ids.ids");
  EXPECT_EQ(FieldAtFault(std::string("\x40\x80", 2)), "priority");
}

TEST_F(ParseMessageTest, SaysWhatIsWrongWhereNoFieldIs) {
  v1::GenerateRequest request;
  EXPECT_EQ(FieldAtFault(std::string("\xff", 1)), "");
  EXPECT_EQ(Parse(std::string("\xff", 1), request).message(),
            "the baton.v1.GenerateRequest is not well-formed protobuf");
  grpc::ByteBuffer none;
  EXPECT_EQ(ParseMessage(none, request).message(), "the call contains no baton.v1.GenerateRequest");
  EXPECT_TRUE(Parse("", request).ok()) << "all fields at their defaults";
}

// 16 MiB of empty messages would take 600 MiB of memory.
TEST_F(ParseMessageTest, AMessageHasOnlySoManyParts) {
  v1::GenerateRequest request;
  for (int i = 0; i < kMaxMessageParts; ++i) request.mutable_chat()->add_messages();
  EXPECT_EQ(FieldAtFault(request.SerializeAsString()), "chat");
  request.mutable_chat()->mutable_messages()->RemoveLast();
  v1::GenerateRequest parsed;
  EXPECT_TRUE(Parse(request.SerializeAsString(), parsed, 1 << 20).ok());
  std::string unknown;
  for (int i = 0; i <= kMaxMessageParts; ++i) unknown += std::string("\xf8\x01\0", 3);
  EXPECT_EQ(Parse(unknown, parsed, 1 << 20).message(),
            "the baton.v1.GenerateRequest has more than 65536 strings and messages");
  parsed.mutable_prompt_token_ids()->mutable_ids()->Resize(1 << 20, 7);
  EXPECT_TRUE(Parse(parsed.SerializeAsString(), request, 1 << 20).ok()) << "numbers are small";
}

TEST_F(ParseMessageTest, NestingHasABound) {
  google::protobuf::Value value;
  for (int depth = 0; depth < 200; ++depth) {
    google::protobuf::Value outer;
    outer.mutable_list_value()->add_values()->Swap(&value);
    value.Swap(&outer);
  }
  v1::GenerateRequest request;
  (*request.mutable_chat()->mutable_chat_template_kwargs()->mutable_fields())["x"].Swap(&value);
  EXPECT_EQ(FieldAtFault(request.SerializeAsString())
                .rfind("chat.chat_template_kwargs.fields[0].value.list_value.values[0]", 0),
            0u);
}

// A source of random messages with known places of strings.
class RandomMessage {
 public:
  explicit RandomMessage(uint32_t seed) : random_(seed) {}

  void Fill(Message& message, int depth = 0) {
    for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
      if (random_() % 2 == 0) Fill(message, *message.GetDescriptor()->field(i), depth);
    }
  }
  // Makes one string of the message invalid. Returns its path; empty if there is no string.
  std::string Spoil(Message& message) {
    int count = 0;
    std::string path;
    Visit(message, "", [&](const std::string&, const auto&) { ++count; });
    if (count == 0) return path;
    int chosen = static_cast<int>(random_() % static_cast<uint32_t>(count));
    Visit(message, "", [&](const std::string& field, const auto& set) {
      if (chosen-- != 0) return;
      path = field;
      set(std::string("a\xc3\xa9").substr(0, 1 + random_() % 2) + "\xff");
    });
    return path;
  }

 private:
  void Fill(Message& message, const FieldDescriptor& field, int depth) {
    const Reflection& reflection = *message.GetReflection();
    // Entries of a map have no fixed order, so a map gets only one.
    const uint32_t count = !field.is_repeated() || field.is_map() ? 1 : random_() % 4;
    for (uint32_t i = 0; i < count; ++i) {
      const bool add = field.is_repeated();
      switch (field.cpp_type()) {
        case FieldDescriptor::CPPTYPE_STRING:
          add ? reflection.AddString(&message, &field, Text())
              : reflection.SetString(&message, &field, Text());
          break;
        case FieldDescriptor::CPPTYPE_MESSAGE:
          if (depth == 6) return;
          Fill(add ? *reflection.AddMessage(&message, &field)
                   : *reflection.MutableMessage(&message, &field),
               depth + 1);
          break;
        case FieldDescriptor::CPPTYPE_UINT32:
          add ? reflection.AddUInt32(&message, &field, random_())
              : reflection.SetUInt32(&message, &field, random_());
          break;
        case FieldDescriptor::CPPTYPE_DOUBLE:
          reflection.SetDouble(&message, &field, 0.5 * random_());
          break;
        case FieldDescriptor::CPPTYPE_UINT64:
          reflection.SetUInt64(&message, &field, uint64_t{random_()} << 20);
          break;
        default:
          break;  // other types are read in the same ways
      }
    }
  }
  std::string Text() {
    std::string text;
    for (uint32_t i = random_() % 6; i > 0; --i) text += random_() % 2 == 0 ? "x" : "\u00e9";
    return text;
  }

  template <typename Found>
  void Visit(Message& message, const std::string& path, const Found& found) {
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) {
        const std::string here =
            absl::StrCat(path, path.empty() ? "" : ".", field->name(),
                         field->is_repeated() ? absl::StrCat("[", i, "]") : "");
        if (field->type() == FieldDescriptor::TYPE_MESSAGE) {
          Visit(field->is_repeated() ? *reflection.MutableRepeatedMessage(&message, field, i)
                                     : *reflection.MutableMessage(&message, field),
                here, found);
        } else if (field->type() == FieldDescriptor::TYPE_STRING) {
          found(here, [&](const std::string& text) {
            field->is_repeated() ? reflection.SetRepeatedString(&message, field, i, text)
                                 : reflection.SetString(&message, field, text);
          });
        }
      }
    }
  }

  std::mt19937 random_;
};

TEST_F(ParseMessageTest, NamesTheOneStringOfARandomMessageThatIsNotUtf8) {
  int spoiled = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    RandomMessage random(seed);
    v1::GenerateRequest request;
    random.Fill(request);
    v1::GenerateRequest same;
    ASSERT_TRUE(Parse(request.SerializeAsString(), same).ok()) << seed;
    ASSERT_EQ(same.DebugString(), request.DebugString());
    const std::string path = random.Spoil(request);
    if (path.empty()) continue;
    ASSERT_EQ(FieldAtFault(request.SerializeAsString()), path) << seed;
    ++spoiled;
  }
  EXPECT_GT(spoiled, 1500);
}

TEST_F(ParseMessageTest, RefusesWhateverProtobufDoesAndNothingElse) {
  int refused = 0;
  for (uint32_t seed = 0; seed < 20'000; ++seed) {
    std::mt19937 random(seed);
    v1::GenerateRequest request;
    RandomMessage(seed).Fill(request);
    std::string bytes = request.SerializeAsString();
    if (random() % 3 == 0) bytes.resize(random() % (bytes.size() + 1));
    for (uint32_t i = random() % 4; i > 0 && !bytes.empty(); --i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) {
      bytes.assign(random() % 40, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
    }
    v1::GenerateRequest parsed;
    const absl::Status status = Parse(bytes, parsed, 1 + random() % 50);
    ASSERT_EQ(status.ok(), v1::GenerateRequest().ParseFromString(bytes)) << seed;
    if (status.ok()) continue;
    ++refused;
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << seed;
    ASSERT_EQ(absl::StrContains(status.message(), "not well-formed protobuf") ||
                  !FieldViolations(status).empty(),
              true)
        << seed << ": " << status;
  }
  EXPECT_GT(refused, 5000);
}

}  // namespace
}  // namespace baton
