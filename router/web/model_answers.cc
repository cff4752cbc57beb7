#include "router/web/model_answers.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "router/anthropic/messages_request.h"
#include "router/anthropic/model_page.h"
#include "router/http/request_target.h"
#include "router/openai/model_routes.h"
#include "router/openai/tokenizer_routes.h"
#include "router/responses/input_tokens.h"

namespace baton {
namespace {

// Bytes of one piece of a long answer.
constexpr size_t kPieceBytes = size_t{64} << 10;

}  // namespace

bool Tokenizes(Route route) {
  return route == Route::kTokenize || route == Route::kCountTokens || route == Route::kInputTokens;
}

absl::StatusOr<HttpResponse> ModelAnswers::Answer(const Asked& asked) const {
  if (asked.route.route == Route::kTokenize) return TokenizeAnswerFor(asked);
  BATON_ASSIGN_OR_RETURN(std::string body, BodyFor(asked));
  return JsonResponse(200, std::move(body));
}

absl::StatusOr<HttpResponse> ModelAnswers::TokenizeAnswerFor(const Asked& asked) const {
  BATON_ASSIGN_OR_RETURN(const TokenizeCall tokenize, ReadTokenizeRequest(asked.body));
  BATON_ASSIGN_OR_RETURN(std::vector<int32_t> ids, TokensOf(asked.caller, tokenize.request));
  ids.shrink_to_fit();
  const auto text = std::make_shared<TokenizeText>(
      TokenizeAnswer{.tokens = std::move(ids),
                     .max_model_len = parts_.model.Card(parts_.fleet.Get()).max_model_len(),
                     .return_token_strs = tokenize.return_token_strs,
                     .with_pieces = tokenize.with_pieces},
      [&tokenizer = parts_.model.tokenizer()](int32_t id) { return tokenizer.TokenBytes(id); });
  HttpResponse answer = JsonResponse(200, text->Next(kPieceBytes));
  if (text->done()) return answer;
  answer.more = [text] { return text->Next(kPieceBytes); };
  answer.more_bytes = text->memory_bytes();
  return answer;
}

absl::StatusOr<std::string> ModelAnswers::BodyFor(const Asked& asked) const {
  switch (asked.route.route) {
    case Route::kModels:
      return ModelsBody(asked);
    case Route::kModel:
      return ModelBodyFor(asked);
    case Route::kDetokenize: {
      BATON_ASSIGN_OR_RETURN(const v1::DetokenizeRequest request,
                             ReadDetokenizeRequest(asked.body));
      BATON_RETURN_IF_ERROR(parts_.model.Validate(request));
      BATON_ASSIGN_OR_RETURN(const v1::DetokenizeResponse text, parts_.model.Detokenize(request));
      return DetokenizeBody(text.text());
    }
    case Route::kTokenizerInfo:
      return TokenizerInfoBodyFor();
    case Route::kCountTokens: {
      BATON_ASSIGN_OR_RETURN(const uint32_t tokens,
                             CountOf(asked.caller, ReadCountTokens(asked.body, asked.context)));
      return CountTokensBody(tokens);
    }
    case Route::kInputTokens: {
      BATON_ASSIGN_OR_RETURN(const uint32_t tokens,
                             CountOf(asked.caller, ReadInputTokens(asked.body, asked.context)));
      return InputTokensBody(tokens);
    }
    default:
      return absl::UnimplementedError(
          absl::StrCat(asked.head.path, " is not served: this model generates text"));
  }
}

absl::StatusOr<std::string> ModelAnswers::ModelsBody(const Asked& asked) const {
  const v1::ListModelsResponse models = parts_.model.Models(parts_.fleet.Get());
  if (asked.route.api != Api::kAnthropic) return ModelListBody(models);
  BATON_ASSIGN_OR_RETURN(const auto parameters, ParseQuery(asked.head.query));
  BATON_ASSIGN_OR_RETURN(const ModelPage page, ReadModelPage(parameters));
  return ModelPageBody(models, page);
}

absl::StatusOr<std::string> ModelAnswers::ModelBodyFor(const Asked& asked) const {
  const std::string& id = asked.route.rest;
  BATON_RETURN_IF_ERROR(parts_.model.CheckName(id));
  const v1::ListModelsResponse models = parts_.model.Models(parts_.fleet.Get());
  const auto found = std::find_if(models.models().begin(), models.models().end(),
                                  [&id](const v1::ModelCard& card) { return card.id() == id; });
  const v1::ModelCard& card = found == models.models().end() ? models.models(0) : *found;
  return asked.route.api == Api::kAnthropic ? ModelInfoBody(card) : ModelBody(card);
}

std::string ModelAnswers::TokenizerInfoBodyFor() const {
  const Tokenizer& tokenizer = parts_.model.tokenizer();
  const auto text = [&tokenizer](std::optional<int32_t> id) {
    return id.has_value() ? std::string(tokenizer.TokenBytes(*id)) : std::string();
  };
  return TokenizerInfoBody(
      {.bos_token = text(tokenizer.bos_id()),
       .eos_token = text(tokenizer.eos_id()),
       .pad_token = "",
       .chat_template = tokenizer.chat_template(),
       .model_max_length = parts_.model.Card(parts_.fleet.Get()).max_model_len(),
       .add_bos_token = parts_.model.adds_bos()});
}

absl::StatusOr<std::vector<int32_t>> ModelAnswers::TokensOf(
    const Caller& caller, const v1::GenerateRequest& request) const {
  BATON_RETURN_IF_ERROR(parts_.model.Validate(request));
  absl::StatusOr<std::vector<int32_t>> ids =
      parts_.model.PromptTokens(request, parts_.pool.stopping());
  parts_.quotas.ChargeText(caller, ids.ok() ? ids->size() : AboutPromptTokens(request),
                           SteadyNow());
  return ids;
}

absl::StatusOr<uint32_t> ModelAnswers::CountOf(
    const Caller& caller, const absl::StatusOr<v1::GenerateRequest>& request) const {
  BATON_RETURN_IF_ERROR(request.status());
  BATON_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, TokensOf(caller, *request));
  return static_cast<uint32_t>(ids.size());
}

}  // namespace baton
