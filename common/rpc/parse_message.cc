#include "common/rpc/parse_message.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/proto_buffer_reader.h"

#include "common/base/utf8.h"
#include "common/rpc/limits.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;
using Wire = google::protobuf::internal::WireFormatLite;

// The first fault of a message. Its field is empty if the fault is that of the whole message.
using Fault = std::optional<FieldViolation>;

constexpr char kMalformed[] = "is not well-formed protobuf";

Fault Here(std::string description) { return FieldViolation{"", std::move(description)}; }

// Puts the name of `field` and, if it is repeated, the index of the element (from 0) in front of
// the path that the fault names.
Fault Within(const FieldDescriptor& field, int element, Fault fault) {
  std::string name = field.name();
  if (field.is_repeated() && !field.is_packable()) absl::StrAppend(&name, "[", element, "]");
  fault->field = fault->field.empty() ? name : absl::StrCat(name, ".", fault->field);
  return fault;
}

// A walk through the encoding of a message, which keeps nothing of it. The input bounds the depth
// of nesting, as it does for the parser.
class Walk {
 public:
  // Borrows `input`. A `thorough` walk also checks the contents of strings and packed numbers.
  Walk(CodedInputStream& input, bool thorough) : input_(input), thorough_(thorough) {}

  // Returns the first fault before the input's limit in a message of `type`. The path is put
  // together only on the way back, so that a message without fault costs little.
  Fault FindFault(const Descriptor& type) {
    std::map<const FieldDescriptor*, int> elements;
    while (const uint32_t tag = input_.ReadTag()) {
      const FieldDescriptor* field = type.FindFieldByNumber(Wire::GetTagFieldNumber(tag));
      const bool has_length = Wire::GetTagWireType(tag) == Wire::WIRETYPE_LENGTH_DELIMITED;
      if ((has_length || field == nullptr) && --parts_left_ < 0) {
        return Here(absl::StrCat("has more than ", kMaxMessageParts, " strings and messages"));
      }
      Fault fault;
      if (field != nullptr && has_length) {
        fault = FindFaultIn(*field);
      } else if (!Wire::SkipField(&input_, tag)) {
        fault = Here(kMalformed);
      }
      if (fault.has_value()) {
        return field == nullptr ? fault : Within(*field, elements[field], *std::move(fault));
      }
      if (field != nullptr && field->is_repeated()) ++elements[field];
    }
    return input_.ConsumedEntireMessage() ? std::nullopt : Here(kMalformed);
  }

 private:
  // Returns the fault in a field with a length, whose tag has been read.
  Fault FindFaultIn(const FieldDescriptor& field) {
    int bytes = 0;
    if (!input_.ReadVarintSizeAsInt(&bytes)) return Here(kMalformed);
    if (const int left = input_.BytesUntilLimit(); bytes > left) {
      return Here(absl::StrCat("is cut off: of its ", bytes, " bytes there are ", left));
    }
    if (field.type() == FieldDescriptor::TYPE_MESSAGE) {
      return FindFaultInMessage(*field.message_type(), bytes);
    }
    if (thorough_ && field.type() == FieldDescriptor::TYPE_STRING) return FindFaultInString(bytes);
    if (thorough_ && field.is_packable()) return FindFaultInPacked(field, bytes);
    input_.Skip(bytes);
    return std::nullopt;
  }

  Fault FindFaultInMessage(const Descriptor& type, int bytes) {
    const auto [limit, depth_left] = input_.IncrementRecursionDepthAndPushLimit(bytes);
    if (depth_left < 0) return Here("is nested too deeply");
    Fault fault = FindFault(type);
    input_.DecrementRecursionDepthAndPopLimit(limit);
    return fault;
  }

  Fault FindFaultInString(int bytes) {
    std::string text;
    input_.ReadString(&text, bytes);
    for (absl::string_view rest = text; !rest.empty();) {
      const Utf8Unit unit = NextUtf8Unit(rest);
      if (unit.kind != Utf8Unit::Kind::kCharacter) {
        return Here(absl::StrCat("must be UTF-8, its byte ", text.size() - rest.size(), " is not"));
      }
      rest.remove_prefix(unit.size);
    }
    return std::nullopt;
  }

  Fault FindFaultInPacked(const FieldDescriptor& field, int bytes) {
    const auto type = static_cast<Wire::FieldType>(field.type());
    const uint32_t tag = Wire::MakeTag(field.number(), Wire::WireTypeForFieldType(type));
    const CodedInputStream::Limit limit = input_.PushLimit(bytes);
    bool good = true;
    while (good && input_.BytesUntilLimit() > 0) good = Wire::SkipField(&input_, tag);
    input_.PopLimit(limit);
    return good ? std::nullopt : Here(kMalformed);
  }

  CodedInputStream& input_;
  const bool thorough_;
  int parts_left_ = kMaxMessageParts;
};

Fault FindFault(grpc::ByteBuffer& bytes, const Descriptor& type, bool thorough) {
  grpc::ProtoBufferReader reader(&bytes);
  CodedInputStream input(&reader);
  input.PushLimit(static_cast<int>(bytes.Length()));
  return Walk(input, thorough).FindFault(type);
}

}  // namespace

absl::Status ParseMessage(grpc::ByteBuffer& bytes, google::protobuf::Message& message) {
  const Descriptor& type = *message.GetDescriptor();
  if (!bytes.Valid()) {
    return absl::InvalidArgumentError(absl::StrCat("the call contains no ", type.full_name()));
  }
  Fault fault = FindFault(bytes, type, /*thorough=*/false);
  if (!fault.has_value()) {
    grpc::ProtoBufferReader reader(&bytes);
    if (message.ParseFromZeroCopyStream(&reader)) return absl::OkStatus();
    fault = FindFault(bytes, type, /*thorough=*/true);
  }
  const auto& [field, description] = fault.value_or(FieldViolation{"", kMalformed});
  if (!field.empty()) return InvalidField(field, description);
  return absl::InvalidArgumentError(absl::StrCat("the ", type.full_name(), " ", description));
}

}  // namespace baton
