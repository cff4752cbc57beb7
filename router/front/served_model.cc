#include "router/front/served_model.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/base/status_macros.h"
#include "common/gguf/model_name.h"
#include "common/protocol/sampling_defaults.h"
#include "common/rpc/limits.h"
#include "common/rpc/status.h"
#include "router/front/file_type_name.h"
#include "router/front/read_expected_model.h"
#include "router/front/response_format.h"
#include "router/tools/struct_json.h"

namespace baton {
namespace {

// Checks a request for the tokens of one text.
template <typename Request>
EncodeOptions EncodeOptionsOf(const Request& request) {
  return {.add_special_tokens = !request.has_add_special_tokens() || request.add_special_tokens(),
          .parse_special = request.parse_special()};
}

// Cuts max_tokens to what a context of `longest` tokens leaves beside the prompt, if that is any.
void CutMaxTokens(uint32_t prompt_tokens, uint32_t longest, v1::SamplingParams& params) {
  if (!params.has_max_tokens() || prompt_tokens >= longest) return;
  params.set_max_tokens(std::min(params.max_tokens(), longest - prompt_tokens));
}

}  // namespace

uint64_t AboutPromptTokens(const v1::GenerateRequest& request) {
  switch (request.input_case()) {
    case v1::GenerateRequest::kPromptTokenIds:
      return static_cast<uint64_t>(request.prompt_token_ids().ids_size());
    case v1::GenerateRequest::kChat:  // with its tools, which templates write out
      return AboutTokens(request.chat().ByteSizeLong());
    default:
      return AboutTokens(request.prompt().size());
  }
}

absl::StatusOr<std::unique_ptr<ServedModel>> ServedModel::Load(const GgufFile& file,
                                                               ModelNames names,
                                                               v1::SamplingParams sampling) {
  std::unique_ptr<ServedModel> model(new ServedModel());
  FillTemperatureAndTopP({}, sampling);
  model->default_sampling_ = std::move(sampling);
  const std::filesystem::path path(file.path());
  model->root_ = path.filename();
  if (names.served.empty()) names.served.push_back(DefaultModelName(file.path()));
  model->names_ = std::move(names);
  BATON_ASSIGN_OR_RETURN(const absl::string_view architecture,
                         file.GetString("general.architecture"));
  BATON_ASSIGN_OR_RETURN(const uint64_t context,
                         file.GetUint(absl::StrCat(architecture, ".context_length")));
  model->context_length_ = static_cast<uint32_t>(std::min<uint64_t>(context, INT32_MAX));
  if (model->context_length_ == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": ", architecture, ".context_length is 0"));
  }
  if (const auto type = file.GetUint("general.file_type"); type.ok()) {
    model->dtype_ = FileTypeName(*type);
  }
  model->created_ = absl::ToUnixSeconds(absl::Now());
  BATON_ASSIGN_OR_RETURN(model->tokenizer_, Tokenizer::Load(file));
  model->expected_ = ReadExpectedModel(file, model->tokenizer_digest(), model->name());
  model->table_ = MakeTokenTable(*model->tokenizer_);
  BATON_ASSIGN_OR_RETURN(const std::vector<int32_t> empty,
                         model->tokenizer_->Encode("", EncodeOptions{}));
  model->adds_bos_ = !empty.empty() && model->tokenizer_->bos_id() == empty.front();
  const std::string& with_tools = model->tokenizer_->tool_chat_template();
  // A file whose only template is the one for tools means it for all chats.
  const std::string& usual = model->tokenizer_->chat_template();
  if (const std::string& source = usual.empty() ? with_tools : usual; !source.empty()) {
    absl::StatusOr<ChatTemplate> compiled = ChatTemplate::Compile(source, with_tools);
    if (!compiled.ok()) {
      return absl::Status(
          compiled.status().code(),
          absl::StrCat(file.path(), ": tokenizer.chat_template: ", compiled.status().message()));
    }
    model->chat_template_ = *std::move(compiled);
    model->LearnTemplate();
  }
  return model;
}

void ServedModel::LearnTemplate() {
  const std::string& with_tools = tokenizer_->tool_chat_template();
  const std::vector<std::string> special = [&] {
    std::vector<std::string> texts;
    for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
      if (tokenizer_->IsSpecial(id)) texts.emplace_back(tokenizer_->TokenBytes(id));
    }
    return texts;
  }();
  tool_form_ = ToolForm::OfTemplate(
      with_tools.empty() ? tokenizer_->chat_template() : with_tools, [&](absl::string_view text) {
        return std::find(special.begin(), special.end(), text) != special.end();
      });
  const auto is_known = [this](uint32_t id) { return id < table_.vocab_size(); };
  tool_form_ = tool_form_.WithTokens(
      {.bytes = [this, is_known](
                    uint32_t id) { return is_known(id) ? table_.bytes[id] : absl::string_view(); },
       .is_special = [this, is_known](uint32_t id) { return is_known(id) && table_.special[id]; }});
  chat_shape_ = ShapeOf(*chat_template_, tool_form_.kind(), TemplateOptions({}));
  if (tool_form_.has_reasoning()) {
    tool_form_ = tool_form_.WithOpenReasoning(OpensReasoning({}));
  }
}

ToolForm ServedModel::ToolFormFor(const v1::ChatInput& chat) const {
  if (!tool_form_.has_reasoning() || chat.chat_template_kwargs().fields().empty()) {
    return tool_form_;
  }
  return tool_form_.WithOpenReasoning(OpensReasoning(chat));
}

bool ServedModel::OpensReasoning(const v1::ChatInput& chat) const {
  v1::ChatInput small;
  small.add_messages()->set_role("user");
  small.mutable_messages(0)->set_content("Hi");
  const auto pieces = chat_template_->Render(ChatJsonOf(small, chat_shape_), TemplateOptions(chat));
  if (!pieces.ok()) return false;
  std::string prompt;
  for (const TextPiece& piece : *pieces) prompt += piece.text;
  return tool_form_.OpensReasoning(prompt);
}

absl::StatusOr<std::optional<GrammarSpec>> ServedModel::GrammarOf(
    const v1::GenerateRequest& request) const {
  v1::ResponseFormat form = request.response_format();
  if (!request.has_response_format()) {
    BATON_ASSIGN_OR_RETURN(form, tool_form_.FormOf(request.chat()));
    if (form.form_case() == v1::ResponseFormat::FORM_NOT_SET) return std::nullopt;
  }
  absl::StatusOr<GrammarSpec> spec = GrammarSpecOf(form);
  if (!spec.ok()) return NamingTools(request, spec.status());
  return *std::move(spec);
}

RequestLimits ServedModel::Limits() const {
  return {.vocab_size = static_cast<uint32_t>(table_.vocab_size()),
          .max_model_len = context_length_};
}

absl::Status ServedModel::Validate(const v1::GenerateRequest& request) const {
  BATON_RETURN_IF_ERROR(CheckName(request.model()));
  BATON_RETURN_IF_ERROR(ValidateGenerateRequest(request, Limits()));
  if (request.has_chat() && !chat_template_.has_value()) {
    return InvalidField("chat", "the model has no chat template; send a prompt");
  }
  BATON_RETURN_IF_ERROR(GrammarOf(request).status());
  for (const auto& [name, value] : request.chat().chat_template_kwargs().fields()) {
    if (IsChatVariable(name)) {
      return InvalidField(
          "chat.chat_template_kwargs",
          "must not have the variables that the chat itself sets, such as messages, "
          "tools, add_generation_prompt and bos_token");
    }
  }
  if (static_cast<uint32_t>(request.prompt_token_ids().ids_size()) > context_length_) {
    return CheckContextLength(static_cast<uint32_t>(request.prompt_token_ids().ids_size()),
                              request.sampling_params(), Limits());
  }
  return absl::OkStatus();
}

absl::Status ServedModel::Validate(const v1::TokenizeRequest& request) const {
  BATON_RETURN_IF_ERROR(CheckName(request.model()));
  return ValidateTokenizeRequest(request);
}

absl::Status ServedModel::Validate(const v1::DetokenizeRequest& request) const {
  BATON_RETURN_IF_ERROR(CheckName(request.model()));
  return ValidateDetokenizeRequest(request, Limits());
}

absl::StatusOr<RequestSpec> ServedModel::Prepare(const v1::GenerateRequest& request,
                                                 const FleetSummary& fleet,
                                                 Disaggregation disaggregation, uint64_t seed,
                                                 const std::atomic<bool>& stopping,
                                                 uint64_t* tokenised,
                                                 LongAnswers long_answers) const {
  const uint32_t everywhere = MaxModelLen(fleet);
  const uint32_t longest = LongestRequest(fleet, disaggregation);
  if (tokenised != nullptr) *tokenised = 0;
  BATON_RETURN_IF_ERROR(CheckBytes("prompt", request.prompt().size(), longest));
  const auto encoded = PromptTokens(request, stopping, longest);
  if (tokenised != nullptr) {
    *tokenised = encoded.ok() ? encoded->size() : AboutPromptTokens(request);
  }
  BATON_RETURN_IF_ERROR(encoded.status());
  const std::vector<int32_t>& tokens = *encoded;
  if (tokens.empty()) return InvalidField("prompt", "must not be empty");
  const auto prompt_tokens = static_cast<uint32_t>(tokens.size());
  v1::SamplingParams asked = request.sampling_params();
  if (long_answers == LongAnswers::kCut) CutMaxTokens(prompt_tokens, longest, asked);
  BATON_RETURN_IF_ERROR(CheckContextLength(
      prompt_tokens, asked,
      {.vocab_size = static_cast<uint32_t>(table_.vocab_size()), .max_model_len = longest}));
  if (const auto fault =
          PromptLogprobsFault(prompt_tokens, request.sampling_params(),
                              request.stream() ? kMaxPromptLogprobs : kMaxPromptLogprobsAtOnce)) {
    return InvalidField("sampling_params.prompt_logprobs",
                        request.stream() ? *fault : absl::StrCat(*fault, ", or stream them"));
  }
  RequestSpec spec;
  spec.client_request_id = request.request_id();
  spec.prompt_token_ids.assign(tokens.begin(), tokens.end());
  spec.sampling = default_sampling_;
  spec.sampling.MergeFrom(asked);  // a client's values replace the defaults
  if (request.echo()) BATON_RETURN_IF_ERROR(CheckEcho(spec.prompt_token_ids));
  if (spec.sampling.has_max_tokens() && spec.sampling.max_tokens() == 0) {
    spec.no_output = true;
    spec.sampling.set_max_tokens(1);
  }
  // A request without max_tokens may go to any worker that can hold its prompt.
  FillSamplingDefaults(spec.sampling, prompt_tokens,
                       prompt_tokens < everywhere ? everywhere : longest, seed);
  spec.cache_salt = request.cache_salt();
  spec.priority = request.priority();
  spec.user = request.user();
  spec.speculative = request.speculative();
  spec.stream = request.stream();
  spec.echo = request.echo();
  spec.return_token_ids = request.return_token_ids();
  return spec;
}

// A prompt of text is short enough already.
absl::Status ServedModel::CheckEcho(const std::vector<uint32_t>& prompt) const {
  size_t bytes = 0;
  for (const uint32_t id : prompt) bytes += table_.bytes[id].size();
  if (bytes <= kMaxPromptBytes) return absl::OkStatus();
  return InvalidField("echo", absl::StrCat("the prompt has ", bytes, " bytes of text, at most ",
                                           kMaxPromptBytes, " are echoed"));
}

absl::Status ServedModel::CheckBytes(absl::string_view field, size_t bytes,
                                     uint32_t context) const {
  const std::optional<size_t> of_token = tokenizer_->max_bytes_of_token();
  if (!of_token.has_value() || bytes / *of_token <= context) return absl::OkStatus();
  return WithErrorInfo(
      InvalidField(field, absl::StrCat("has ", bytes, " bytes of text, the context of ", context,
                                       " tokens holds at most ", context * uint64_t{*of_token},
                                       "; shorten it")),
      {.reason = kReasonContextLengthExceeded,
       .metadata = {{"max_model_len", absl::StrCat(context)}}});
}

absl::StatusOr<std::vector<int32_t>> ServedModel::PromptTokens(const v1::GenerateRequest& request,
                                                               const std::atomic<bool>& stopping,
                                                               uint32_t context) const {
  switch (request.input_case()) {
    case v1::GenerateRequest::kPromptTokenIds: {
      const auto& ids = request.prompt_token_ids().ids();
      return std::vector<int32_t>(ids.begin(), ids.end());
    }
    case v1::GenerateRequest::kChat:
      return ChatTokens(request, stopping, context);
    default:
      return TextTokens("prompt", request.prompt(), EncodeOptionsOf(request));
  }
}

absl::StatusOr<std::vector<int32_t>> ServedModel::TextTokens(absl::string_view field,
                                                             const std::string& text,
                                                             const EncodeOptions& options) const {
  auto tokens = tokenizer_->Encode(text, options);
  if (!tokens.ok()) return InvalidField(field, std::string(tokens.status().message()));
  return tokens;
}

ChatTemplateOptions ServedModel::TemplateOptions(const v1::ChatInput& chat) const {
  const auto literal = [this](std::optional<int32_t> id) {
    return id.has_value() ? std::string(tokenizer_->TokenBytes(*id)) : std::string();
  };
  return {
      .add_generation_prompt = !chat.has_add_generation_prompt() || chat.add_generation_prompt(),
      .bos_token = literal(tokenizer_->bos_id()),
      .eos_token = literal(tokenizer_->eos_id()),
      .today = chat_template_->NeedsToday()
                   ? std::optional(absl::ToCivilDay(absl::Now(), absl::UTCTimeZone()))
                   : std::nullopt,
      .variables = JsonOf(chat.chat_template_kwargs())};
}

absl::StatusOr<std::vector<int32_t>> ServedModel::ChatTokens(const v1::GenerateRequest& request,
                                                             const std::atomic<bool>& stopping,
                                                             uint32_t context) const {
  ChatTemplateOptions options = TemplateOptions(request.chat());
  options.cancelled = &stopping;
  absl::StatusOr<std::vector<TextPiece>> pieces =
      chat_template_->Render(ChatJsonOf(request.chat(), chat_shape_), options);
  if (!pieces.ok()) {
    std::string why(pieces.status().message());
    if (absl::IsResourceExhausted(pieces.status())) {
      absl::StrAppend(&why, "; send fewer or shorter messages, or have model '", name(),
                      "' served with a simpler tokenizer.chat_template");
    }
    return InvalidField("chat.messages", why);
  }
  size_t bytes = 0;
  for (const TextPiece& piece : *pieces) bytes += piece.text.size();
  BATON_RETURN_IF_ERROR(CheckBytes("chat.messages", bytes, context));
  absl::StatusOr<std::vector<int32_t>> encoded =
      tokenizer_->Encode(absl::MakeConstSpan(*pieces), /*add_special_tokens=*/false);
  if (!encoded.ok()) return InvalidChat(request.chat(), encoded.status());
  std::vector<int32_t> tokens = *std::move(encoded);
  // Most templates write BOS themselves; if they do not, the model's metadata decides. An EOS
  // never follows a prompt that an answer is to follow.
  const bool wanted = !request.has_add_special_tokens() || request.add_special_tokens();
  const bool missing = tokens.empty() || tokens.front() != tokenizer_->bos_id();
  if (wanted && adds_bos_ && missing) tokens.insert(tokens.begin(), *tokenizer_->bos_id());
  return tokens;
}

absl::Status ServedModel::InvalidChat(const v1::ChatInput& chat,
                                      const absl::Status& rendered) const {
  for (int i = 0; i < chat.messages_size(); ++i) {
    const v1::ChatMessage& message = chat.messages(i);
    const std::string field = absl::StrCat("chat.messages[", i, "]");
    BATON_RETURN_IF_ERROR(TextTokens(field + ".role", message.role(), {}).status());
    BATON_RETURN_IF_ERROR(TextTokens(field + ".content", message.content(), {}).status());
  }
  return InvalidField("chat.messages",
                      absl::StrCat("as the chat template renders them, ", rendered.message()));
}

uint32_t ServedModel::MaxModelLen(const FleetSummary& fleet) const {
  return fleet.max_model_len == 0 ? context_length_
                                  : std::min(context_length_, fleet.max_model_len);
}

uint32_t ServedModel::LongestRequest(const FleetSummary& fleet,
                                     Disaggregation disaggregation) const {
  return std::max(MaxModelLen(fleet),
                  std::min(context_length_, fleet.LongestRequest(disaggregation)));
}

absl::StatusOr<v1::TokenizeResponse> ServedModel::Tokenize(const v1::TokenizeRequest& request,
                                                           const FleetSummary& fleet) const {
  BATON_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                         TextTokens("text", request.text(), EncodeOptionsOf(request)));
  v1::TokenizeResponse response;
  response.mutable_token_ids()->Add(tokens.begin(), tokens.end());
  response.set_max_model_len(MaxModelLen(fleet));
  return response;
}

absl::StatusOr<v1::DetokenizeResponse> ServedModel::Detokenize(
    const v1::DetokenizeRequest& request) const {
  const bool skip_special = !request.has_skip_special_tokens() || request.skip_special_tokens();
  const std::vector<int32_t> ids(request.token_ids().begin(), request.token_ids().end());
  size_t bytes = 0;
  for (const uint32_t id : request.token_ids()) {
    if (!skip_special || !table_.special[id]) bytes += table_.bytes[id].size();
  }
  if (bytes > kMaxPromptBytes) {
    return InvalidField("token_ids", absl::StrCat("stand for ", bytes, " bytes of text, at most ",
                                                  kMaxPromptBytes, " are allowed"));
  }
  v1::DetokenizeResponse response;
  response.set_text(tokenizer_->Decode(ids, skip_special));
  return response;
}

v1::ModelCard ServedModel::Card(const FleetSummary& fleet) const {
  v1::ModelCard card;
  card.set_id(name());
  card.set_root(root_);
  card.set_max_model_len(MaxModelLen(fleet));
  card.set_created(created_);
  card.set_dtype(fleet.weights_type.empty() ? dtype_ : fleet.weights_type);
  card.set_kv_cache_dtype(fleet.kv_cache_dtype);
  card.set_block_size(fleet.block_size);
  return card;
}

v1::ListModelsResponse ServedModel::Models(const FleetSummary& fleet) const {
  v1::ListModelsResponse models;
  for (const std::string& served : names_.served) {
    v1::ModelCard& card = *models.add_models();
    card = Card(fleet);
    card.set_id(served);
  }
  return models;
}

}  // namespace baton
