// The model as the router knows it: tokenizer, chat template, context. No weights, no engine.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "baton/v1/generation.pb.h"
#include "common/gguf/gguf_file.h"
#include "common/grammar/grammar_spec.h"
#include "common/jinja/chat_template.h"
#include "common/protocol/validate_request.h"
#include "common/tokenizer/tokenizer.h"
#include "router/fleet/expected_model.h"
#include "router/fleet/fleet_view.h"
#include "router/front/model_names.h"
#include "router/request/choice_output.h"
#include "router/request/events.h"
#include "router/tools/chat_json.h"
#include "router/tools/tool_form.h"

namespace baton {

// Estimates the tokens in a text of `bytes` bytes.
constexpr uint64_t AboutTokens(size_t bytes) { return bytes / 4; }
// About how many tokens the prompt comes to, before it is tokenised.
uint64_t AboutPromptTokens(const v1::GenerateRequest& request);

// The treatment of a max_tokens that does not fit into the context beside the prompt.
enum class LongAnswers {
  kRefuse,
  kCut,  // to the tokens that fit
};

// Immutable after Load and thread-safe.
class ServedModel {
 public:
  // `file` may be cut off after its metadata; then the weights of workers are not compared with it.
  // `names` without one that is served: the file's name without directory and ".gguf". `sampling`:
  // the parameters of a request that sets none (DefaultSampling); what is unset there too has the
  // default of baton.v1.SamplingParams.
  static absl::StatusOr<std::unique_ptr<ServedModel>> Load(const GgufFile& file, ModelNames names,
                                                           v1::SamplingParams sampling = {});

  // NOT_FOUND unless `name` is empty or one of this model's.
  absl::Status CheckName(absl::string_view name) const { return names_.Check(name); }
  // Checks the request without tokenising it, in time linear in its fields.
  absl::Status Validate(const v1::GenerateRequest& request) const;
  absl::Status Validate(const v1::TokenizeRequest& request) const;
  absl::Status Validate(const v1::DetokenizeRequest& request) const;
  // Tokenises the prompt, checks token limits, and fills every default. `seed` is used if the
  // request has none. INVALID_ARGUMENT if no ready worker could ever hold the request. The caller
  // sets ids, tenant, times and grammar of the spec, and may change its priority and salt. Once
  // `stopping` is true, a chat template ends with an error. A text with more bytes than the longest
  // context can hold is refused before it is tokenised. `tokenised`, if it is not null, becomes the
  // number of the prompt's tokens, even if it is refused: 0 if it was not tokenised, an estimate if
  // the tokeniser failed.
  absl::StatusOr<RequestSpec> Prepare(const v1::GenerateRequest& request, const FleetSummary& fleet,
                                      Disaggregation disaggregation, uint64_t seed,
                                      const std::atomic<bool>& stopping,
                                      uint64_t* tokenised = nullptr,
                                      LongAnswers long_answers = LongAnswers::kRefuse) const;
  // Returns the most tokens of prompt and answer together that a ready worker takes.
  uint32_t LongestRequest(const FleetSummary& fleet, Disaggregation disaggregation) const;

  // REQUIRES of all three: Validate(request) is OK. The prompt as Prepare tokenises it, however
  // long it is.
  absl::StatusOr<std::vector<int32_t>> PromptTokens(const v1::GenerateRequest& request,
                                                    const std::atomic<bool>& stopping) const {
    return PromptTokens(request, stopping, std::numeric_limits<uint32_t>::max());
  }
  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request,
                                                const FleetSummary& fleet) const;
  absl::StatusOr<v1::DetokenizeResponse> Detokenize(const v1::DetokenizeRequest& request) const;
  // Under its first name.
  v1::ModelCard Card(const FleetSummary& fleet) const;
  // A card for each name that is served. Aliases have none.
  v1::ListModelsResponse Models(const FleetSummary& fleet) const;

  // The form in which the model calls tools and reasons.
  const ToolForm& tool_form() const { return tool_form_; }
  // The same for answers to this chat: its variables may make the template open the reasoning. If
  // the chat has variables, this renders a small chat. REQUIRES: a chat template.
  ToolForm ToolFormFor(const v1::ChatInput& chat) const;
  // Returns the grammar of the answer, by response_format or chat.tool_choice; nullopt if it may be
  // any text. INVALID_ARGUMENT names the field. REQUIRES: ValidateGenerateRequest accepts the
  // request.
  absl::StatusOr<std::optional<GrammarSpec>> GrammarOf(const v1::GenerateRequest& request) const;

  // The sampling parameters of a request that sets none. Temperature and top_p are set.
  const v1::SamplingParams& default_sampling() const { return default_sampling_; }
  // The way in which the chat template renders a system message in mid-conversation.
  LaterSystem later_system() const { return chat_shape_.later_system; }

  const std::string& name() const { return names_.served.front(); }
  const std::string& tokenizer_digest() const { return tokenizer_->digest(); }
  // The model's facts that the identities of workers are compared with.
  const ExpectedModel& expected() const { return expected_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const TokenTable& token_table() const { return table_; }
  bool adds_bos() const { return adds_bos_; }  // before a prompt that does not begin with it

 private:
  ServedModel() = default;

  void LearnTemplate();
  RequestLimits Limits() const;
  absl::Status CheckEcho(const std::vector<uint32_t>& prompt) const;
  // INVALID_ARGUMENT names `field`, whose text of `bytes` is longer than `context` tokens can be.
  absl::Status CheckBytes(absl::string_view field, size_t bytes, uint32_t context) const;
  // A chat that is longer than `context` tokens can be is refused before it is tokenised.
  absl::StatusOr<std::vector<int32_t>> PromptTokens(const v1::GenerateRequest& request,
                                                    const std::atomic<bool>& stopping,
                                                    uint32_t context) const;
  // INVALID_ARGUMENT names `field`, whose content `text` is.
  absl::StatusOr<std::vector<int32_t>> TextTokens(absl::string_view field, const std::string& text,
                                                  const EncodeOptions& options) const;
  ChatTemplateOptions TemplateOptions(const v1::ChatInput& chat) const;
  // Whether the prompts of chats with these variables end inside the reasoning.
  bool OpensReasoning(const v1::ChatInput& chat) const;
  absl::StatusOr<std::vector<int32_t>> ChatTokens(const v1::GenerateRequest& request,
                                                  const std::atomic<bool>& stopping,
                                                  uint32_t context) const;
  // The error of a chat whose rendered text could not be encoded (`rendered` says why): names the
  // field that it comes from.
  absl::Status InvalidChat(const v1::ChatInput& chat, const absl::Status& rendered) const;
  // The model's context, or the shortest of the ready workers'.
  uint32_t MaxModelLen(const FleetSummary& fleet) const;

  ModelNames names_;     // at least one is served
  std::string root_;     // the file's name
  std::string dtype_;    // as the file says, such as "Q4_1", or empty; workers know better
  int64_t created_ = 0;  // when it was loaded, Unix seconds
  uint32_t context_length_ = 0;
  bool adds_bos_ = false;
  std::unique_ptr<Tokenizer> tokenizer_;
  ExpectedModel expected_;
  v1::SamplingParams default_sampling_;        // each field unset, or valid in any request
  std::optional<ChatTemplate> chat_template_;  // none: chat input is refused
  ToolForm tool_form_ = ToolForm::OfTemplate("");
  ChatShape chat_shape_;
  TokenTable table_;
};

}  // namespace baton
