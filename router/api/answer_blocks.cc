#include "router/api/answer_blocks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"

#include "common/base/check.h"

namespace baton {
namespace {

void Append(std::vector<v1::TokenLogprob> more, std::vector<v1::TokenLogprob>& tokens) {
  std::move(more.begin(), more.end(), std::back_inserter(tokens));
}

}  // namespace

AnswerBlocks::AnswerBlocks(std::unique_ptr<AnswerParser> parser) : parser_(std::move(parser)) {}

std::vector<BlockEvent> AnswerBlocks::Add(const v1::GenerateResponse& response) {
  BATON_CHECK(!complete_.has_value(), "a response after the end of the choice");
  const bool last = response.has_complete();
  parser_->AddTokens(last ? response.complete().token_ids() : response.chunk().token_ids());
  if (last) {
    pieces_.Add(response.complete().text(), response.complete().logprobs());
  } else {
    pieces_.Add(response.chunk().text(), response.chunk().logprobs());
  }
  AddPieces(last);
  if (last) {
    AddParts(parser_->Finish());
    End();
    if (blocks_.empty()) {
      std::string text = std::exchange(space_, {});
      std::vector<v1::TokenLogprob> logprobs = std::exchange(space_logprobs_, {});
      Begin({});
      Grow(std::move(text), std::move(logprobs));
      End();
    }
    complete_ = response.complete();
    complete_->clear_text();
    complete_->clear_logprobs();
  }
  return std::exchange(events_, {});
}

void AnswerBlocks::AddPieces(bool last) {
  while (std::optional<TokenPieces::Piece> piece = pieces_.Next(last)) {
    Append(std::move(piece->tokens), tokens_);
    if (!piece->text.empty()) AddParts(parser_->Add(piece->text));
  }
}

void AnswerBlocks::AddParts(std::vector<AnswerPart> parts) {
  for (AnswerPart& part : parts) {
    last_call_.Add(part);
    std::vector<v1::TokenLogprob> tokens = TakeTokensOf(part.text);
    switch (part.kind) {
      case AnswerPart::Kind::kText:
        AddText(std::move(part.text), std::move(tokens));
        break;
      case AnswerPart::Kind::kReasoning:
        if (part.text.empty()) break;
        if (!IsOpen(AnswerBlock::Kind::kReasoning)) Begin({.kind = AnswerBlock::Kind::kReasoning});
        Grow(std::move(part.text), {});
        break;
      case AnswerPart::Kind::kCall:
        Begin({.kind = AnswerBlock::Kind::kCall,
               .id = std::move(part.id),
               .name = std::move(part.name),
               .space = std::move(part.space),
               .is_custom = part.is_custom});
        break;
      case AnswerPart::Kind::kArguments:
        BATON_CHECK(IsOpen(AnswerBlock::Kind::kCall), "arguments outside of a call");
        Grow(std::move(part.text), {});
        break;
    }
  }
}

// A template puts lines' ends between reasoning and calls, which should not become a text block.
void AnswerBlocks::AddText(std::string text, std::vector<v1::TokenLogprob> logprobs) {
  if (!IsOpen(AnswerBlock::Kind::kText)) {
    space_ += text;
    Append(std::move(logprobs), space_logprobs_);
    if (absl::StripAsciiWhitespace(space_).empty()) return;
    text = std::exchange(space_, {});
    logprobs = std::exchange(space_logprobs_, {});
    Begin({});
  }
  Grow(std::move(text), std::move(logprobs));
}

// The last tokens that have so much text: markers that the parser took out stand before them.
std::vector<v1::TokenLogprob> AnswerBlocks::TakeTokensOf(const std::string& text) {
  size_t bytes = 0;
  auto first = tokens_.end();
  while (first != tokens_.begin() && bytes < text.size()) bytes += (--first)->token().size();
  std::vector<v1::TokenLogprob> result(std::make_move_iterator(first),
                                       std::make_move_iterator(tokens_.end()));
  tokens_.clear();
  return result;
}

void AnswerBlocks::Begin(AnswerBlock block) {
  End();
  space_logprobs_.clear();
  space_.clear();
  blocks_.push_back(std::move(block));
  events_.push_back({.kind = BlockEvent::Kind::kBegin, .block = blocks_.size() - 1});
}

void AnswerBlocks::Grow(std::string delta, std::vector<v1::TokenLogprob> logprobs) {
  if (delta.empty()) return;
  blocks_.back().text += delta;
  events_.push_back({.kind = BlockEvent::Kind::kDelta,
                     .block = blocks_.size() - 1,
                     .delta = std::move(delta),
                     .logprobs = std::move(logprobs)});
}

void AnswerBlocks::End() {
  if (blocks_.empty() || blocks_.back().ended) return;
  blocks_.back().ended = true;
  events_.push_back({.kind = BlockEvent::Kind::kEnd, .block = blocks_.size() - 1});
}

bool AnswerBlocks::IsOpen(AnswerBlock::Kind kind) const {
  return !blocks_.empty() && !blocks_.back().ended && blocks_.back().kind == kind;
}

}  // namespace baton
