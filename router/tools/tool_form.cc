#include "router/tools/tool_form.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

#include "common/json/json_tree.h"
#include "common/protocol/tool_name.h"
#include "common/protocol/validate_chat.h"
#include "router/tools/call_parser.h"
#include "router/tools/call_syntax.h"
#include "router/tools/harmony_parser.h"
#include "router/tools/marker_tokens.h"
#include "router/tools/reasoning_splitter.h"

namespace baton {
namespace {

using absl::StrContains;

// Whether the word stands in the source as a name, not as a part of one.
bool HasName(absl::string_view source, absl::string_view name) {
  const auto is_part = [&](size_t at) {
    return at < source.size() &&
           (IsToolNameByte(source[at]) && source[at] != '.' && source[at] != '-');
  };
  for (size_t at = source.find(name); at != absl::string_view::npos;
       at = source.find(name, at + 1)) {
    if ((at == 0 || !is_part(at - 1)) && !is_part(at + name.size())) return true;
  }
  return false;
}

bool IsPhi4(absl::string_view source) {
  return StrContains(source, "<|tool|>") && StrContains(source, "<|/tool|>");
}

// The most specific texts come first: many templates have learnt from several others.
ToolFormKind KindOf(absl::string_view source) {
  if (!HasName(source, "tools")) return ToolFormKind::kGeneric;
  if (IsPhi4(source)) return ToolFormKind::kPhi4;
  if (StrContains(source, "<|channel|>") && StrContains(source, "<|message|>") &&
      StrContains(source, "commentary")) {
    return ToolFormKind::kHarmony;
  }
  if (StrContains(source, "[TOOL_CALLS]")) {
    return StrContains(source, "[ARGS]") ? ToolFormKind::kMistralV13 : ToolFormKind::kMistral;
  }
  if (StrContains(source, "<|tool_call|>")) return ToolFormKind::kGranite;
  if (StrContains(source, "<tool_call>\\n<function=")) return ToolFormKind::kQwenXml;
  // GLM and others write <tool_call>name<arg_key>, and some <tool_calls>[...].
  const bool has_json = StrContains(source, "<tool_call>") && StrContains(source, "</tool_call>") &&
                        !StrContains(source, "<arg_key>") && !StrContains(source, "<tool_calls>");
  if (has_json && (StrContains(source, "\\\"name\\\"") || StrContains(source, "{\"name\""))) {
    return ToolFormKind::kHermes;
  }
  if (StrContains(source, "<|start_header_id|>") && StrContains(source, "ipython") &&
      StrContains(source, "\"parameters\": ")) {
    return ToolFormKind::kLlama3;
  }
  return ToolFormKind::kGeneric;
}

ReasoningMarkers MarkersOf(absl::string_view source) {
  for (const ReasoningMarkers& markers :
       {ReasoningMarkers{"<think>", "</think>"}, ReasoningMarkers{"[THINK]", "[/THINK]"}}) {
    if (StrContains(source, markers.begin) && StrContains(source, markers.end)) return markers;
  }
  return {};
}

// None if the answer may call no tools.
std::shared_ptr<const ToolSchemas> SharedSchemasOf(const v1::ChatInput& chat) {
  auto schemas = std::make_shared<ToolSchemas>();
  if (!UsesTools(chat)) return schemas;
  for (const v1::Tool& tool : chat.tools()) {
    (*schemas)[tool.name()] = ParseOrderedJson(tool.parameters());
  }
  return schemas;
}

// Reasoning, then text and calls.
class MarkedParser : public AnswerParser {
 public:
  MarkedParser(ReasoningSplitter reasoning, CallParser calls, bool single_call)
      : reasoning_(std::move(reasoning)), calls_(std::move(calls)), parts_(single_call) {}

  std::vector<AnswerPart> Add(absl::string_view text) override {
    const std::string behind = reasoning_.Add(text, parts_);
    if (!behind.empty()) calls_.Add(behind, parts_);
    return parts_.Take();
  }
  std::vector<AnswerPart> Finish() override {
    calls_.Add(reasoning_.Finish(parts_), parts_);
    calls_.Finish(parts_);
    return parts_.Take();
  }

 private:
  ReasoningSplitter reasoning_;
  CallParser calls_;
  AnswerParts parts_;
};

}  // namespace

bool UsesTools(const v1::ChatInput& chat) {
  return chat.tools_size() > 0 && chat.tool_choice().mode() != v1::ToolChoice::MODE_NONE;
}

ToolForm ToolForm::OfTemplate(absl::string_view chat_template,
                              absl::FunctionRef<bool(absl::string_view)> is_special) {
  ToolForm form;
  form.kind_ = KindOf(chat_template);
  if (form.kind_ == ToolFormKind::kHarmony) {
    form.needs_special_tokens_ = is_special("<|channel|>");
    for (const std::string& marker : HarmonyMarkers()) {
      if (is_special(marker)) form.special_markers_.push_back(marker);
    }
    return form;
  }
  ReasoningMarkers markers = MarkersOf(chat_template);
  form.think_begin_ = std::move(markers.begin);
  form.think_end_ = std::move(markers.end);
  const CallSyntax syntax = CallSyntaxOf(form.kind_);
  std::vector<std::string> texts = {form.think_begin_, form.think_end_};
  for (const auto* list : {&syntax.begins, &syntax.close, &syntax.trailing}) {
    texts.insert(texts.end(), list->begin(), list->end());
  }
  if (form.kind_ == ToolFormKind::kMistralV13) texts.insert(texts.end(), {"[ARGS]", "[CALL_ID]"});
  for (const std::string& text : texts) {
    if (text.empty() || !is_special(text)) continue;
    form.special_markers_.push_back(text);
    // A bare call needs no marker.
    const bool is_optional = syntax.is_bare && text != form.think_begin_ && text != form.think_end_;
    if (!is_optional) form.needs_special_tokens_ = true;
  }
  return form;
}

ToolForm ToolForm::WithTokens(TokenTexts texts) const {
  ToolForm form = *this;
  if (needs_special_tokens_) {
    form.tokens_ = std::make_shared<const MarkerTokens>(
        MarkerTokens{.markers = special_markers_, .texts = std::move(texts)});
  }
  return form;
}

ToolForm ToolForm::OfTemplate(absl::string_view chat_template) {
  return OfTemplate(chat_template, [](absl::string_view) { return false; });
}

bool ToolForm::OpensReasoning(absl::string_view prompt) const {
  return !think_begin_.empty() &&
         absl::EndsWith(absl::StripTrailingAsciiWhitespace(prompt), think_begin_);
}

ToolForm ToolForm::WithOpenReasoning(bool is_open) const {
  ToolForm form = *this;
  form.reasoning_is_open_ = is_open;
  return form;
}

std::unique_ptr<AnswerParser> ToolForm::NewParser(const v1::ChatInput& chat, uint64_t seed,
                                                  int choice) const {
  return NewParser(chat, SharedSchemasOf(chat), seed, choice);
}

std::vector<std::unique_ptr<AnswerParser>> ToolForm::NewParsers(const v1::ChatInput& chat,
                                                                uint64_t seed, int choices) const {
  const std::shared_ptr<const ToolSchemas> schemas = SharedSchemasOf(chat);
  std::vector<std::unique_ptr<AnswerParser>> parsers;
  for (int i = 0; i < choices; ++i) parsers.push_back(NewParser(chat, schemas, seed, i));
  return parsers;
}

std::unique_ptr<AnswerParser> ToolForm::NewParser(const v1::ChatInput& chat,
                                                  std::shared_ptr<const ToolSchemas> schemas,
                                                  uint64_t seed, int choice) const {
  const bool uses_tools = UsesTools(chat);
  const bool single_call = chat.tool_choice().single_call();
  std::unique_ptr<AnswerParser> parser;
  if (kind_ == ToolFormKind::kHarmony) {
    parser = std::make_unique<HarmonyParser>(uses_tools, seed, choice, single_call);
  } else {
    // The forced form begins at once.
    const bool is_open = reasoning_is_open_ && !(uses_tools && IsHeldToCalls(chat.tool_choice()));
    parser = std::make_unique<MarkedParser>(
        ReasoningSplitter({.begin = think_begin_, .end = think_end_}, is_open),
        CallParser(uses_tools ? CallSyntaxOf(kind_) : CallSyntax(), std::move(schemas), seed,
                   choice),
        single_call);
  }
  if (tokens_ == nullptr) return parser;
  return std::make_unique<TokenAwareParser>(tokens_, std::move(parser));
}

}  // namespace baton
