// The answer of /v1/responses: typed events, or a whole response.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "router/api/answer_blocks.h"
#include "router/api/answer_format.h"

namespace baton {

// Every block of the answer is an item of the output. The events' sequence_number counts from 0. A
// stream that breaks ends with response.failed, which has the output so far; events of an item that
// was under way are left out then.
class ResponsesFormat final : public AnswerFormat {
 public:
  // `response`: in progress, as NewResponse makes it.
  ResponsesFormat(nlohmann::ordered_json response, bool stream,
                  std::unique_ptr<AnswerParser> parser);

  void Add(size_t prompt, const v1::GenerateResponse& response, std::string& out) override;
  void Finish(std::string& out) override;
  void Fail(const ApiError& error, std::string& out) override;

 private:
  using Json = nlohmann::ordered_json;

  void Start(std::string& out);
  void WriteBegin(size_t index, std::string& out);
  void WriteDelta(const BlockEvent& event, std::string& out);
  void WriteEnd(size_t index, std::string& out);
  // With `fields` after type and sequence_number.
  void Write(const char* type, const Json& fields, std::string& out);
  // With the item's id and its place in the output before `fields`.
  void WriteOfItem(const char* type, size_t index, const Json& fields, std::string& out);
  // How the item ended.
  const char* StatusOf(size_t index) const;
  // Sets status, output and usage.
  void Complete();
  void SetOutput();

  Json response_;
  const std::string id_;  // of the request
  const bool stream_;
  AnswerBlocks blocks_;
  bool started_ = false;
  int64_t sequence_number_ = 0;
};

}  // namespace baton
