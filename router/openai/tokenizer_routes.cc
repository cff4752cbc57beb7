#include "router/openai/tokenizer_routes.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/tokenizer/utf8.h"
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
    ReadTools(fields, chat);
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

std::string TokenizeBody(absl::Span<const uint32_t> tokens, uint32_t max_model_len,
                         const std::optional<std::vector<std::string>>& token_strs) {
  Json body = {{"count", tokens.size()}, {"max_model_len", max_model_len}};
  body["tokens"] = Json::array();
  for (const uint32_t token : tokens) body["tokens"].push_back(token);
  body["token_strs"] = nullptr;
  if (token_strs.has_value()) {
    body["token_strs"] = Json::array();
    for (const std::string& bytes : *token_strs) body["token_strs"].push_back(TokenText(bytes));
  }
  return DumpJson(body);
}

std::string PiecesBody(absl::Span<const uint32_t> tokens, const std::vector<std::string>& pieces) {
  Json list = Json::array();
  for (size_t i = 0; i < tokens.size(); ++i) {
    list.push_back({{"id", tokens[i]}, {"piece", PieceJson(pieces[i])}});
  }
  return DumpJson({{"tokens", std::move(list)}});
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
