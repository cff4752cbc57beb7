// The answer of /v1/responses: typed events, or a whole response.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include <nlohmann/json.hpp>

#include "router/api/answer_blocks.h"
#include "router/api/answer_format.h"
#include "router/responses/response_object.h"
#include "router/responses/shared_text.h"

namespace baton {

// Every block of the answer is an item of the output. The events' sequence_number counts from 0.
// The protocol repeats an item's text and log probabilities in its last three events and in the
// stream's last one. They are kept once, as JSON, and these events share them. A stream that breaks
// ends with response.failed, which has the output so far; events of an item that was under way are
// left out then.
class ResponsesFormat final : public AnswerFormat {
 public:
  // `response`: in progress, as NewResponse makes it.
  ResponsesFormat(nlohmann::ordered_json response, bool stream,
                  std::unique_ptr<AnswerParser> parser);

  void Add(size_t prompt, const v1::GenerateResponse& response, std::string& out) override;
  void Finish(std::string& out) override;
  void Fail(const ApiError& error, std::string& out) override;
  absl::Cord TakeRest() override;

 private:
  using Json = nlohmann::ordered_json;
  // What is kept of an item.
  struct Item {
    GrowingText text{};      // as ItemContent's
    GrowingText logprobs{};  // the same
  };

  void Start(std::string& out);
  void WriteBegin(size_t index, std::string& out);
  // Keeps the delta, and writes it in a stream.
  void AddDelta(const BlockEvent& event, std::string& out);
  void WriteEnd(size_t index, std::string& out);
  // With `fields`, of which there is one at least, after type and sequence_number.
  void Write(const char* type, const SharedObject& fields, std::string& out);
  void WriteResponse(const char* type, std::string& out);
  // The first fields of an event of an item: its id and its place in the output.
  SharedObject FieldsOf(size_t index) const;
  ItemContent ContentOf(size_t index);
  // Appends a short text to `out`, and a long one, and all that follow it, to `rest_`.
  void Append(absl::Cord text, std::string& out);
  // How the item ended.
  const char* StatusOf(size_t index) const;
  // Sets the status, also in the response.
  void SetStatus(const char* status);
  // Sets status, output and usage.
  void Complete();
  void SetOutput();

  const std::string id_;      // id of the response
  const int64_t created_at_;  // Unix seconds
  SharedObject response_;
  std::string status_;  // status of the response
  const bool stream_;
  AnswerBlocks blocks_;
  std::vector<Item> items_;  // by block
  absl::Cord rest_;
  bool started_ = false;
  int64_t sequence_number_ = 0;
};

}  // namespace baton
