#include "router/tools/client_parser.h"

#include <optional>
#include <string>
#include <utility>

#include "router/tools/custom_input.h"

namespace baton {
namespace {

class ClientParser final : public AnswerParser {
 public:
  ClientParser(std::unique_ptr<AnswerParser> parser, std::shared_ptr<const ToolTable> tools)
      : parser_(std::move(parser)), tools_(std::move(tools)) {}

  void AddTokens(absl::Span<const uint32_t> ids) override { parser_->AddTokens(ids); }
  std::vector<AnswerPart> Add(absl::string_view text) override {
    return Translated(parser_->Add(text));
  }
  std::vector<AnswerPart> Finish() override {
    std::vector<AnswerPart> parts = Translated(parser_->Finish());
    EndInput(parts);
    return parts;
  }

 private:
  std::vector<AnswerPart> Translated(std::vector<AnswerPart> parts) {
    std::vector<AnswerPart> result;
    for (AnswerPart& part : parts) {
      if (part.kind == AnswerPart::Kind::kArguments) {
        AddArguments(std::move(part), result);
      } else {
        EndInput(result);
        if (part.kind == AnswerPart::Kind::kCall) BeginCall(part);
        result.push_back(std::move(part));
      }
    }
    return result;
  }

  void BeginCall(AnswerPart& part) {
    const ClientTool* const tool = tools_->Find(part.name);
    if (tool == nullptr) return;
    part.name = tool->name;
    part.space = tool->space;
    part.is_custom = tool->is_custom;
    call_ = part.call;
    if (part.is_custom) input_.emplace();
  }

  void AddArguments(AnswerPart part, std::vector<AnswerPart>& result) {
    if (input_.has_value() && part.call == call_) {
      AddInput(input_->Add(part.text), result);
    } else {
      result.push_back(std::move(part));
    }
  }

  void AddInput(std::string text, std::vector<AnswerPart>& result) const {
    if (text.empty()) return;
    result.push_back({.kind = AnswerPart::Kind::kArguments,
                      .call = call_,
                      .text = std::move(text),
                      .is_custom = true});
  }

  // Ends the input of the call of a custom tool, if one is under way.
  void EndInput(std::vector<AnswerPart>& result) {
    if (!input_.has_value()) return;
    AddInput(input_->Finish(), result);
    input_.reset();
  }

  const std::unique_ptr<AnswerParser> parser_;
  const std::shared_ptr<const ToolTable> tools_;
  int call_ = 0;  // the last one that has begun
  std::optional<CustomInput> input_;
};

}  // namespace

std::unique_ptr<AnswerParser> ForClient(std::unique_ptr<AnswerParser> parser,
                                        std::shared_ptr<const ToolTable> tools) {
  if (!tools->translates()) return parser;
  return std::make_unique<ClientParser>(std::move(parser), std::move(tools));
}

std::vector<std::unique_ptr<AnswerParser>> ForClient(
    std::vector<std::unique_ptr<AnswerParser>> parsers,
    const std::shared_ptr<const ToolTable>& tools) {
  for (auto& parser : parsers) parser = ForClient(std::move(parser), tools);
  return parsers;
}

}  // namespace baton
