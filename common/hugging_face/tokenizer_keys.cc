#include "common/hugging_face/tokenizer_keys.h"

#include <unistd.h>

#include <climits>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr size_t kMaxTokenizerBytes = size_t{128} << 20;
constexpr size_t kMaxTemplateBytes = size_t{4} << 20;
constexpr JsonFileLimits kSettingsLimits = {.bytes = size_t{32} << 20, .values = 1 << 20};

// The content of a file of the folder; nothing if it is not there.
absl::StatusOr<std::optional<absl::string_view>> ReadFile(const std::string& path, size_t max_bytes,
                                                          ModelFiles& files) {
  if (access(path.c_str(), F_OK) != 0) return std::nullopt;
  BATON_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, files.Open(path, false));
  if (bytes.size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has ", bytes.size(), " bytes, more than ", max_bytes));
  }
  return absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Adds the ids at `field`, a number or several, to `ids`.
absl::Status AddIds(const JsonFileFields& fields, const char* field, std::vector<int32_t>& ids) {
  const nlohmann::json* value = fields.Find(field);
  if (value == nullptr) return absl::OkStatus();
  if (value->is_array()) {
    BATON_ASSIGN_OR_RETURN(const std::vector<double> numbers, fields.Numbers(field));
    for (const double number : numbers) {
      if (number < 0 || number > INT_MAX || number != static_cast<int32_t>(number)) {
        return fields.Invalid(field, "has a number that is not a token id");
      }
      ids.push_back(static_cast<int32_t>(number));
    }
    return absl::OkStatus();
  }
  BATON_ASSIGN_OR_RETURN(const uint64_t id, fields.Count(field, 0, INT_MAX));
  ids.push_back(static_cast<int32_t>(id));
  return absl::OkStatus();
}

// Adds the id of the token that `field` of tokenizer_config.json names by its text, if the file
// says which one that is.
void AddNamedId(const JsonFileFields& settings, const char* field, std::vector<int32_t>& ids) {
  const nlohmann::json* token = settings.Find(field);
  const nlohmann::json* added = settings.Find("added_tokens_decoder");
  if (token == nullptr || added == nullptr || !added->is_object()) return;
  const nlohmann::json text =
      token->is_object() ? token->value("content", nlohmann::json()) : *token;
  for (const auto& [key, entry] : added->items()) {
    int32_t id = 0;
    if (!text.is_string() || !entry.is_object() ||
        entry.value("content", nlohmann::json()) != text || !absl::SimpleAtoi(key, &id) || id < 0) {
      continue;
    }
    ids.push_back(id);
    return;
  }
}

absl::Status WriteIds(const JsonFileFields& config, const JsonFileFields& generation,
                      const JsonFileFields& settings, GgufMetadata& metadata) {
  std::vector<int32_t> begins;
  std::vector<int32_t> ends;
  AddNamedId(settings, "bos_token", begins);
  AddNamedId(settings, "eos_token", ends);
  for (const JsonFileFields* fields : {&config, &generation}) {
    BATON_RETURN_IF_ERROR(AddIds(*fields, "bos_token_id", begins));
    BATON_RETURN_IF_ERROR(AddIds(*fields, "eos_token_id", ends));
  }
  if (!begins.empty()) {
    metadata.Uint32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(begins.front()));
  }
  std::set<int32_t> all;
  size_t written = 0;
  for (const int32_t id : ends) {
    constexpr const char* kKeys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                     "tokenizer.ggml.eom_token_id"};
    if (!all.insert(id).second || written == std::size(kKeys)) continue;
    metadata.Uint32(kKeys[written++], static_cast<uint32_t>(id));
  }
  if (!all.empty()) metadata.Int32s("tokenizer.ggml.eos_token_ids", {all.begin(), all.end()});
  return absl::OkStatus();
}

absl::Status WriteSampling(const JsonFileFields& generation, GgufMetadata& metadata) {
  for (const auto& [theirs, ours] :
       {std::pair("temperature", "general.sampling.temp"),
        std::pair("top_p", "general.sampling.top_p"), std::pair("min_p", "general.sampling.min_p"),
        std::pair("top_k", "general.sampling.top_k"),
        std::pair("repetition_penalty", "general.sampling.penalty_repeat")}) {
    if (!generation.Has(theirs)) continue;
    BATON_ASSIGN_OR_RETURN(const double value, generation.Number(theirs));
    metadata.Float32(ours, static_cast<float>(value));
  }
  return absl::OkStatus();
}

// The templates of a folder by their use; an empty one is not there.
struct Templates {
  std::string usual;
  std::string with_tools;
};

// Sets a template by its name; others than these two have no use here.
void SetNamed(const std::string& name, const std::string& text, Templates& templates) {
  if (name == "default") templates.usual = text;
  if (name == "tool_use") templates.with_tools = text;
}

// The templates in `chat_template`: a text; a list of objects with a name and a template; or an
// object of templates by their names.
absl::StatusOr<Templates> TemplatesOf(const JsonFileFields& settings) {
  const nlohmann::json* value = settings.Find("chat_template");
  Templates templates;
  if (value == nullptr || value->is_string()) {
    BATON_ASSIGN_OR_RETURN(templates.usual, settings.TextOr("chat_template", ""));
    return templates;
  }
  if (!value->is_array() && !value->is_object()) {
    return settings.Invalid("chat_template", "is neither a string nor a list of named templates");
  }
  for (const auto& [key, entry] : value->items()) {
    const auto text_of = [&entry = entry](const char* field) {
      const auto text = entry.is_object() ? entry.find(field) : entry.end();
      return text != entry.end() && text->is_string() ? text->get<std::string>() : "";
    };
    const bool by_key = value->is_object() && entry.is_string();
    const std::string name = by_key ? key : text_of("name");
    const std::string text = by_key ? entry.get<std::string>() : text_of("template");
    if (name.empty() || text.empty()) {
      return settings.Invalid("chat_template", "has an entry without a name or a template");
    }
    SetNamed(name, text, templates);
  }
  return templates;
}

absl::StatusOr<nlohmann::json> ReadSettings(const std::string& path, ModelFiles& files) {
  BATON_ASSIGN_OR_RETURN(const std::optional<absl::string_view> text,
                         ReadFile(path, kSettingsLimits.bytes, files));
  if (!text.has_value()) return nlohmann::json::object();
  return ParseJsonObject(*text, path, kSettingsLimits);
}

// A text file of the folder; empty if it is not there.
absl::StatusOr<std::string> ReadTemplate(const std::string& path, ModelFiles& files) {
  BATON_ASSIGN_OR_RETURN(const std::optional<absl::string_view> text,
                         ReadFile(path, kMaxTemplateBytes, files));
  return std::string(text.value_or(""));
}

absl::StatusOr<Templates> ReadTemplates(const std::string& folder, const JsonFileFields& settings,
                                        ModelFiles& files) {
  BATON_ASSIGN_OR_RETURN(Templates templates, TemplatesOf(settings));
  BATON_ASSIGN_OR_RETURN(std::string usual,
                         ReadTemplate(absl::StrCat(folder, "/chat_template.jinja"), files));
  if (!usual.empty()) templates = {.usual = std::move(usual), .with_tools = ""};
  BATON_ASSIGN_OR_RETURN(
      std::string with_tools,
      ReadTemplate(absl::StrCat(folder, "/additional_chat_templates/tool_use.jinja"), files));
  if (!with_tools.empty()) templates.with_tools = std::move(with_tools);
  if (!templates.usual.empty()) return templates;
  const std::string path = absl::StrCat(folder, "/chat_template.json");
  BATON_ASSIGN_OR_RETURN(const nlohmann::json json, ReadSettings(path, files));
  BATON_ASSIGN_OR_RETURN(Templates of_processor, TemplatesOf(JsonFileFields(json, path)));
  if (templates.with_tools.empty()) templates.with_tools = std::move(of_processor.with_tools);
  templates.usual = std::move(of_processor.usual);
  return templates;
}

}  // namespace

absl::Status ReadTokenizerKeys(const std::string& folder, const JsonFileFields& config,
                               ModelFiles& files, GgufMetadata& metadata) {
  const std::string tokenizer_path = absl::StrCat(folder, "/tokenizer.json");
  BATON_ASSIGN_OR_RETURN(const std::optional<absl::string_view> tokenizer,
                         ReadFile(tokenizer_path, kMaxTokenizerBytes, files));
  if (!tokenizer.has_value()) {
    return absl::NotFoundError(
        absl::StrCat(tokenizer_path,
                     ": does not exist; fetch the folder again, or save the model's tokenizer with "
                     "transformers if it has only tokenizer.model"));
  }
  metadata.Text("tokenizer.huggingface.json", std::string(*tokenizer));

  const std::string generation_path = absl::StrCat(folder, "/generation_config.json");
  BATON_ASSIGN_OR_RETURN(const nlohmann::json generation_json,
                         ReadSettings(generation_path, files));
  const JsonFileFields generation(generation_json, generation_path);
  BATON_RETURN_IF_ERROR(WriteSampling(generation, metadata));

  const std::string settings_path = absl::StrCat(folder, "/tokenizer_config.json");
  BATON_ASSIGN_OR_RETURN(const nlohmann::json settings_json, ReadSettings(settings_path, files));
  const JsonFileFields settings(settings_json, settings_path);
  BATON_RETURN_IF_ERROR(WriteIds(config, generation, settings, metadata));
  for (const auto& [theirs, ours] : {std::pair("add_bos_token", "tokenizer.ggml.add_bos_token"),
                                     std::pair("add_eos_token", "tokenizer.ggml.add_eos_token")}) {
    if (!settings.Has(theirs)) continue;
    BATON_ASSIGN_OR_RETURN(const bool add, settings.BoolOr(theirs, false));
    metadata.Bool(ours, add);
  }
  BATON_ASSIGN_OR_RETURN(const Templates chat, ReadTemplates(folder, settings, files));
  if (!chat.usual.empty()) metadata.Text("tokenizer.chat_template", chat.usual);
  if (!chat.with_tools.empty()) {
    metadata.Text("tokenizer.chat_template.tool_use", chat.with_tools);
  }
  return absl::OkStatus();
}

}  // namespace baton
