// An answer as the APIs with items or content blocks see it: stretches of reasoning, text and calls
// of tools, each of which begins, grows and ends before the next one begins.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "baton/v1/generation.pb.h"
#include "router/api/token_pieces.h"
#include "router/tools/last_call.h"
#include "router/tools/tool_form.h"

namespace baton {

struct AnswerBlock {
  enum class Kind { kReasoning, kText, kCall };
  Kind kind = Kind::kText;
  std::string id{};    // a call's id: 24 letters and digits
  std::string name{};  // the called tool
  std::string text{};  // so far; a call's arguments, as the model wrote the JSON
  bool ended = false;
  std::string space{};     // the called tool's namespace; empty: none
  bool is_custom = false;  // a call of a custom tool, whose `text` is no JSON
};

struct BlockEvent {
  enum class Kind { kBegin, kDelta, kEnd };
  Kind kind = Kind::kBegin;
  size_t block = 0;     // index in AnswerBlocks::blocks()
  std::string delta{};  // set for kDelta, never empty
  // Log probabilities of the tokens in a text's delta, if the request asks for them. AnswerBlock
  // does not keep them.
  std::vector<v1::TokenLogprob> logprobs{};
};

// Turns the responses to one prompt with one choice, streamed or not, into blocks: the same ones
// however the text is cut. White space alone is no block of text, unless it is the whole answer; an
// answer has at least one block. Markers of calls and reasoning have no log probabilities, nor has
// what stands between them. Not thread-safe.
class AnswerBlocks {
 public:
  explicit AnswerBlocks(std::unique_ptr<AnswerParser> parser);

  // What `response` adds. A complete ends the last block.
  std::vector<BlockEvent> Add(const v1::GenerateResponse& response);

  const std::vector<AnswerBlock>& blocks() const { return blocks_; }
  // The end of the choice once it was added, without text and log probabilities.
  const std::optional<v1::GenerateComplete>& complete() const { return complete_; }
  // Whether the last call's arguments are a beginning of JSON alone.
  bool has_cut_call() const { return last_call_.is_cut(); }

 private:
  void AddPieces(bool last);
  void AddParts(std::vector<AnswerPart> parts);
  void AddText(std::string text, std::vector<v1::TokenLogprob> logprobs);
  void Begin(AnswerBlock block);
  void Grow(std::string delta, std::vector<v1::TokenLogprob> logprobs);
  void End();
  bool IsOpen(AnswerBlock::Kind kind) const;
  std::vector<v1::TokenLogprob> TakeTokensOf(const std::string& text);

  std::unique_ptr<AnswerParser> parser_;
  TokenPieces pieces_;
  std::vector<v1::TokenLogprob> tokens_;  // given to the parser, which has not shown them yet
  std::string space_;                     // with which a text may begin
  std::vector<v1::TokenLogprob> space_logprobs_;
  std::vector<AnswerBlock> blocks_;
  std::vector<BlockEvent> events_;
  std::optional<v1::GenerateComplete> complete_;
  LastCall last_call_;
};

}  // namespace baton
