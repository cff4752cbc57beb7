#include "router/openai/tokenizer_routes.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "router/openai/answer_json.h"
#include "router/openai/chat_fields.h"
#include "router/openai/common_fields.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

Json TextJsonOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json PieceJson(const std::string& bytes) {
  if (IsUtf8(bytes)) return bytes;
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
  return list;
}

}  // namespace

absl::StatusOr<TokenizeCall> ReadTokenizeRequest(absl::string_view body) {
  BATON_ASSIGN_OR_RETURN(const Json json, ParseJsonBody(body));
  JsonFields fields(json);
  TokenizeCall call{.return_token_strs = fields.Bool("return_token_strs").value_or(false)};
  v1::GenerateRequest& request = call.request;
  request.set_model(fields.String("model").value_or(""));
  request.set_parse_special(true);
  if (const auto add = fields.Bool("add_special_tokens")) request.set_add_special_tokens(*add);
  if (fields.Find("messages") != nullptr) {
    v1::ChatInput& chat = *request.mutable_chat();
    ReadMessages(fields, chat);
    ToolTable tools;
    ReadTools(fields, chat, tools);
    ReadTemplateFields(fields, chat);
  } else if (const auto prompt = fields.String("prompt")) {
    request.set_prompt(*prompt);
  } else if (const auto content = fields.String("content")) {
    request.set_prompt(*content);
    request.set_add_special_tokens(fields.Bool("add_special").value_or(false));
    request.set_parse_special(fields.Bool("parse_special").value_or(true));
    call.with_pieces = fields.Bool("with_pieces").value_or(false);
  } else {
    fields.Fail("prompt", "is missing");
  }
  BATON_RETURN_IF_ERROR(fields.status());
  return call;
}

std::string TokenizeText::Next(size_t bytes) {
  std::string text;
  while (text.size() < bytes && part_ != Part::kEnd) {
    if (part_ == Part::kBegin) {
      WriteBegin(text);
    } else if (next_ == answer_.tokens.size()) {
      EndTokens(text);
    } else {
      if (next_ > 0) text += ',';
      WriteToken(answer_.tokens[next_++], text);
    }
  }
  return text;
}

void TokenizeText::WriteBegin(std::string& text) {
  part_ = Part::kTokens;
  if (!answer_.with_pieces) {
    absl::StrAppend(&text, R"({"count":)", answer_.tokens.size(), R"(,"max_model_len":)",
                    answer_.max_model_len, R"(,"tokens":[)");
  } else {
    text += R"({"tokens":[)";
  }
}

void TokenizeText::WriteToken(int32_t token, std::string& text) const {
  if (part_ == Part::kTexts) {
    text += DumpJson(TokenText(bytes_of_(token)));
  } else if (answer_.with_pieces) {
    absl::StrAppend(&text, R"({"id":)", token, R"(,"piece":)",
                    DumpJson(PieceJson(std::string(bytes_of_(token)))), "}");
  } else {
    absl::StrAppend(&text, token);
  }
}

void TokenizeText::EndTokens(std::string& text) {
  const bool texts_follow =
      part_ == Part::kTokens && answer_.return_token_strs && !answer_.with_pieces;
  text += ']';
  if (texts_follow) {
    text += R"(,"token_strs":[)";
  } else {
    if (part_ == Part::kTokens && !answer_.with_pieces) text += R"(,"token_strs":null)";
    text += '}';
  }
  part_ = texts_follow ? Part::kTexts : Part::kEnd;
  next_ = 0;
}

absl::StatusOr<v1::DetokenizeRequest> ReadDetokenizeRequest(absl::string_view body) {
  BATON_ASSIGN_OR_RETURN(const Json json, ParseJsonBody(body));
  JsonFields fields(json);
  v1::DetokenizeRequest request;
  request.set_model(fields.String("model").value_or(""));
  request.set_skip_special_tokens(false);
  if (const Json* const tokens = fields.Array("tokens")) {
    ReadTokenIds(fields, "tokens", *tokens, *request.mutable_token_ids());
  } else {
    fields.Fail("tokens", "is missing");
  }
  BATON_RETURN_IF_ERROR(fields.status());
  return request;
}

std::string DetokenizeBody(absl::string_view text) {
  return DumpJson({{"prompt", std::string(text)}, {"content", std::string(text)}});
}

std::string TokenizerInfoBody(const TokenizerInfo& info) {
  return DumpJson({{"tokenizer_class", "BatonTokenizer"},
                   {"bos_token", TextJsonOrNull(info.bos_token)},
                   {"eos_token", TextJsonOrNull(info.eos_token)},
                   {"pad_token", TextJsonOrNull(info.pad_token)},
                   {"add_bos_token", info.add_bos_token},
                   {"model_max_length", info.model_max_length},
                   {"chat_template", TextJsonOrNull(info.chat_template)}});
}

}  // namespace baton
