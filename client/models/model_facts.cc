#include "client/models/model_facts.h"

#include <algorithm>
#include <limits>
#include <map>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/engine/engine_options.h"
#include "common/gguf/gguf_file.h"
#include "common/hugging_face/open_model_file.h"
#include "common/jinja/chat_template.h"
#include "common/model/config.h"
#include "common/model/weights.h"
#include "common/worker/kv_memory.h"
#include "common/worker/model_runtime.h"

namespace baton {
namespace {

std::string TextOf(const GgufFile& file, const char* key) {
  const absl::StatusOr<absl::string_view> text = file.GetString(key);
  return text.ok() ? std::string(*text) : "";
}

std::string TokenizerKind(const GgufFile& file) {
  if (file.Has("tokenizer.huggingface.json")) return "tokenizer.json";
  const std::string split = TextOf(file, "tokenizer.ggml.pre");
  return absl::StrCat(TextOf(file, "tokenizer.ggml.model"),
                      split.empty() ? "" : absl::StrCat(" (", split, ")"));
}

void AddTensors(const GgufFile& file, ModelFacts& facts) {
  std::map<GgmlType, uint64_t> bytes;
  for (const GgufTensor& tensor : file.tensors()) {
    uint64_t elements = 1;
    for (const uint64_t dim : tensor.dims) elements *= dim;
    facts.parameters += elements;
    bytes[tensor.type] += tensor.size_bytes();
  }
  for (const auto& [type, of_type] : bytes) facts.weight_types.push_back({type, of_type});
  std::stable_sort(facts.weight_types.begin(), facts.weight_types.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
}

void AddKv(const ModelConfig& config, const ServingOptions& options, ModelFacts& facts) {
  facts.context_length = config.context_length;
  facts.max_model_len = options.max_model_len > 0 ? options.max_model_len : config.context_length;
  const KvLayout layout = config.MakeKvLayout(EngineOptions().block_size, options.kv_dtype);
  const int64_t blocks = layout.groups.BlocksOf(facts.max_model_len, layout.block_size);
  for (const KvMemory& memory : KvMemoryByType(layout, static_cast<int>(blocks))) {
    KvLayout of_type = layout;
    of_type.dtype = memory.type;
    facts.kv.push_back({memory.type, of_type.bytes_per_token(), memory.bytes});
  }
}

// What the router refuses, beside what a worker does.
absl::Status CheckChatTemplate(const GgufFile& file) {
  const std::string usual = TextOf(file, "tokenizer.chat_template");
  const std::string with_tools = TextOf(file, "tokenizer.chat_template.tool_use");
  const std::string& source = usual.empty() ? with_tools : usual;
  if (source.empty()) return absl::OkStatus();
  const absl::Status status = ChatTemplate::Compile(source, with_tools).status();
  return status.ok() ? status
                     : absl::Status(status.code(),
                                    absl::StrCat(file.path(),
                                                 ": tokenizer.chat_template: ", status.message()));
}

absl::Status FillIn(const ServingOptions& options, Backend& backend, ModelFacts& facts) {
  BATON_ASSIGN_OR_RETURN(GgufFile opened, OpenModelFile(facts.path, GgufFile::Part::kUnread));
  const GgufFile file = GgufFile::Quantised(std::move(opened), options.quantisation);
  facts.name = TextOf(file, "general.name");
  facts.architecture = TextOf(file, "general.architecture");
  facts.tokenizer = TokenizerKind(file);
  facts.chat_template =
      file.Has("tokenizer.chat_template") || file.Has("tokenizer.chat_template.tool_use");
  facts.file_bytes = file.size_bytes();
  AddTensors(file, facts);
  BATON_ASSIGN_OR_RETURN(const ModelConfig config,
                         ModelConfig::FromGguf(file, options.max_model_len));
  AddKv(config, options, facts);
  const absl::StatusOr<uint64_t> weight_bytes = ModelWeights::Measure(file, config, backend);
  if (weight_bytes.ok()) facts.weight_bytes = *weight_bytes;
  ModelRuntimeOptions runtime;
  runtime.model = facts.path;
  runtime.quantisation = options.quantisation;
  runtime.engine.kv_dtype = options.kv_dtype;
  runtime.engine.max_model_len = options.max_model_len;
  // A worker loads the weights last.
  BATON_RETURN_IF_ERROR(CheckModel(runtime));
  BATON_RETURN_IF_ERROR(weight_bytes.status());
  return CheckChatTemplate(file);
}

}  // namespace

ModelFacts FindOutAbout(const std::string& path, const ServingOptions& options, Backend& backend) {
  ModelFacts facts;
  facts.path = path;
  facts.served = FillIn(options, backend, facts);
  return facts;
}

}  // namespace baton
