#include "common/flags/foreign_words.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "common/base/address.h"
#include "common/base/log.h"
#include "common/flags/flag_value.h"

namespace baton {
namespace {

// Flags of Baton, and their names in other programs.
constexpr std::pair<absl::string_view, absl::string_view> kOtherNames[] = {
    {"model", "-m"},
    {"model", "--model-path"},
    {"max-model-len", "-c"},
    {"max-model-len", "--ctx-size"},
    {"max-model-len", "--context-length"},
    {"served-model-name", "-a"},
    {"served-model-name", "--alias"},
    {"threads", "-t"},
    {"serve-key-file", "--api-key-file"},
    {"temperature", "--temp"},
    {"max-tokens", "--n-predict"},
    {"repetition-penalty", "--repeat-penalty"},
    {"draft-model", "--model-draft"},
    {"grammar", "--grammar-file"},
};

constexpr absl::string_view kNoTensors =
    "Baton has no tensor parallelism: a worker computes on one device";
constexpr absl::string_view kMoreWorkers =
    "Baton has no tensor parallelism: a worker computes on one device; --prefill-workers and "
    "--decode-workers add workers";
constexpr absl::string_view kWorkers =
    "workers are added by --prefill-workers N and --decode-workers N";
constexpr absl::string_view kOneDevice =
    "a worker computes all layers on one device; give --device cuda or --device cpu";
constexpr absl::string_view kServerComputes =
    "the server decides where and by how many threads it computes; leave it out";
constexpr absl::string_view kServerContext = "the server decides the context: baton serve -c N";
constexpr absl::string_view kFetch =
    "Baton fetches no models; download the file and name it by --model FILE";
constexpr absl::string_view kNotNeeded = "is not needed here; leave it out";
constexpr absl::string_view kNoCounterpart = "has no counterpart in Baton; leave it out";
constexpr absl::string_view kQuantise =
    "the model's file decides the type of the weights; --quantize q8_0 or q4_0 makes them smaller "
    "while they are loaded";
constexpr absl::string_view kSequences = "give --max-num-seqs N, each of --max-model-len tokens";
constexpr absl::string_view kBatch = "give --max-num-batched-tokens N";
constexpr absl::string_view kKvType = "give --kv-cache-dtype TYPE, for keys and values alike";
constexpr absl::string_view kNoAdapters =
    "Baton serves no LoRA adapters; merge the adapter into the model";
constexpr absl::string_view kTextAlone = "Baton serves text alone; leave it out";
constexpr absl::string_view kTemplate =
    "the chat template is the model's own, which also says how it calls tools; leave it out";
constexpr absl::string_view kTokenizer =
    "the tokenizer is the one in the model's file; leave it out";
constexpr absl::string_view kTls = "give --tls-cert FILE and --tls-key FILE";
constexpr absl::string_view kDraft = "give --draft-model FILE";
constexpr absl::string_view kThreads = "give --threads N, for prompts and answers alike";
constexpr absl::string_view kPrompt =
    "the prompt is an argument without a flag, or comes from standard input";
constexpr absl::string_view kServer = "the server's address is --server HOST:PORT";
constexpr absl::string_view kRouter = "the router's address is --http HOST:PORT";
constexpr absl::string_view kListen = "the address is --listen HOST:PORT";
constexpr absl::string_view kKey =
    "others can read a key on a command line; give --api-key-file FILE, or the key in the variable "
    "BATON_API_KEY";

// If several sentences are about one word, the first whose flags the command has is used.
constexpr ForeignFlag kForeignFlags[] = {
    // Addresses and keys; --host and --port are flags if there is --http-listen.
    {"--host", kServer},
    {"--port", kServer},
    {"--host", kRouter},
    {"--port", kRouter},
    {"--host", kListen},
    {"--port", kListen},
    {"--api-key", kKey},
    {"--ssl-keyfile", kTls},
    {"--ssl-certfile", kTls},
    {"--ssl-key-file", kTls},
    {"--ssl-cert-file", kTls},
    {"--ssl-ca-certs", "give --tls-ca FILE"},
    {"--allowed-origins", "give --http-cors-origin ORIGIN, repeated"},
    {"--cors-allow-origins", "give --http-cors-origin ORIGIN, repeated"},
    // Devices and parallelism.
    {"--tensor-parallel-size", kMoreWorkers},
    {"--tensor-parallel-size", kNoTensors},
    {"-tp", kMoreWorkers},
    {"-tp", kNoTensors},
    {"--tp", kMoreWorkers},
    {"--tp", kNoTensors},
    {"--tp-size", kMoreWorkers},
    {"--tp-size", kNoTensors},
    {"--pipeline-parallel-size", kMoreWorkers},
    {"--pipeline-parallel-size", kNoTensors},
    {"-pp", kMoreWorkers},
    {"-pp", kNoTensors},
    {"--data-parallel-size", kWorkers},
    {"-dp", kWorkers},
    {"--dp-size", kWorkers},
    {"--n-gpu-layers", kOneDevice},
    {"--gpu-layers", kOneDevice},
    {"-ngl", kOneDevice},
    {"--n-gpu-layers", kServerComputes, "raw"},
    {"--gpu-layers", kServerComputes, "raw"},
    {"-ngl", kServerComputes, "raw"},
    {"--threads", kServerComputes, "raw"},
    {"-t", kServerComputes, "raw"},
    {"--split-mode", kNoTensors},
    {"-sm", kNoTensors},
    {"--tensor-split", kNoTensors},
    {"-ts", kNoTensors},
    {"--main-gpu", "give --device cuda:N"},
    {"-mg", "give --device cuda:N"},
    {"-dev", "give --device cuda:N"},
    {"--threads-batch", kThreads},
    {"-tb", kThreads},
    {"--mem-fraction-static", "give --gpu-memory-utilization PART"},
    // The model and its weights.
    {"--dtype", kQuantise},
    {"--quantization", kQuantise},
    {"-q", kQuantise},
    {"--load-format", "the format is seen from the files; leave it out"},
    {"--trust-remote-code", "Baton runs no code that comes with a model; leave it out"},
    {"--tokenizer", kTokenizer},
    {"--tokenizer-path", kTokenizer},
    {"--tokenizer-mode", kTokenizer},
    {"--hf-repo", kFetch},
    {"-hf", kFetch},
    {"-hfr", kFetch},
    {"--hf-file", kFetch},
    {"-hff", kFetch},
    {"--model-url", kFetch},
    {"-mu", kFetch},
    {"--download-dir", kFetch},
    {"--revision", kFetch},
    {"--mmproj", kTextAlone},
    {"--limit-mm-per-prompt", kTextAlone},
    {"--lora", kNoAdapters},
    {"--lora-modules", kNoAdapters},
    {"--lora-paths", kNoAdapters},
    {"--enable-lora", kNoAdapters},
    {"--jinja", "chat templates are always used; leave it out"},
    {"--chat-template", kTemplate},
    {"--chat-template-file", kTemplate},
    {"--tool-call-parser", kTemplate},
    {"--enable-auto-tool-choice", kTemplate},
    {"--reasoning-parser", kTemplate},
    {"--reasoning-format", kTemplate},
    {"-md", kDraft},
    {"--speculative-model", kDraft},
    {"--speculative-config", "give --speculative MODE, and perhaps --draft-model FILE"},
    // Batches and the KV cache.
    {"--parallel", kSequences},
    {"-np", kSequences},
    {"--max-running-requests", kSequences},
    {"--batch-size", kBatch},
    {"-b", kBatch},
    {"--ubatch-size", kBatch},
    {"-ub", kBatch},
    {"--chunked-prefill-size", kBatch},
    {"--cache-type-k", kKvType},
    {"-ctk", kKvType},
    {"--cache-type-v", kKvType},
    {"-ctv", kKvType},
    {"--ctx-size", kServerContext, "raw"},
    {"-c", kServerContext, "raw"},
    {"--max-total-tokens", "give --kv-cache-memory-bytes SIZE or --num-kv-blocks N"},
    {"--num-gpu-blocks-override", "give --num-kv-blocks N"},
    {"--swap-space", "give --kv-cache-memory-bytes SIZE; nothing is swapped"},
    {"--disable-radix-cache", "give --no-enable-prefix-caching"},
    {"--cont-batching", "requests are always batched continuously; leave it out"},
    {"-cb", "requests are always batched continuously; leave it out"},
    {"--enable-chunked-prefill", "prompts are always prefilled in chunks; leave it out"},
    {"--flash-attn", kNotNeeded},
    {"-fa", kNotNeeded},
    {"--enforce-eager", kNotNeeded},
    {"--attention-backend", kNotNeeded},
    {"--mlock", kNotNeeded},
    {"--no-mmap", kNotNeeded},
    {"--cpu-offload-gb", kNoCounterpart},
    {"--keepalive", "a model stays loaded while its server runs; leave it out"},
    // What is served and reported.
    {"--embedding", "embeddings are not served; leave it out"},
    {"--embeddings", "embeddings are not served; leave it out"},
    {"--reranking", "rankings are not served; leave it out"},
    {"--metrics", "give --metrics-listen HOST:PORT"},
    {"--slots", "baton status shows the workers; leave it out"},
    {"--no-webui", "the page is at --http-listen, which none closes"},
    {"--disable-log-requests", "give --access-log none"},
    {"--uvicorn-log-level", "give --log-level LEVEL"},
    {"--verbose", "give --stats", "stats"},
    {"-v", "give --stats", "stats"},
    {"--verbose", "give --log-level debug"},
    {"-v", "give --log-level debug"},
    // Prompts and answers.
    {"--prompt", kPrompt, "raw"},
    {"-p", kPrompt, "raw"},
    {"-f", "a prompt in a file comes by standard input: < FILE", "raw"},
    {"--system-prompt", "give --system TEXT"},
    {"-sys", "give --system TEXT"},
    {"-s", "give --seed N"},
    {"--max-new-tokens", "give --max-tokens N"},
    {"--format", "give --json-object, or --json-schema FILE", "raw"},
    {"--conversation", "without a prompt it is a chat; leave it out", "raw"},
    {"-cnv", "without a prompt it is a chat; leave it out", "raw"},
    {"--interactive", "without a prompt it is a chat; leave it out", "raw"},
};

// Commands of other programs, and Baton's that mean the same.
constexpr std::pair<absl::string_view, absl::string_view> kOtherCommands[] = {
    {"list", "models"}, {"ls", "models"}, {"show", "models"},
    {"ps", "status"},   {"chat", "run"},  {"start", "serve"}};

constexpr absl::string_view kFetchByHand =
    "Baton fetches no models; download a GGUF file or a Hugging Face folder, and name it: baton "
    "serve FILE";
constexpr absl::string_view kFilesAreYours =
    "Baton keeps no models of its own; a model is a file or folder of yours";
constexpr std::pair<absl::string_view, absl::string_view> kForeignCommands[] = {
    {"pull", kFetchByHand},
    {"download", kFetchByHand},
    {"push", kFilesAreYours},
    {"rm", kFilesAreYours},
    {"cp", kFilesAreYours},
    {"create", kFilesAreYours},
    {"convert", "Hugging Face folders are served as they are: baton serve FOLDER"},
    {"quantize", "give --quantize q8_0 or q4_0 to baton serve"},
    {"stop", "a server ends by Ctrl-C or SIGTERM"},
    {"complete", "give the prompt to baton run --raw"},
    {"embed", "embeddings are not served"},
};

bool Has(const std::vector<std::string>& list, absl::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

std::vector<std::string> OtherNamesOf(absl::string_view flag) {
  std::vector<std::string> names;
  for (const auto& [own, other] : kOtherNames) {
    if (own == flag) names.emplace_back(other);
  }
  return names;
}

absl::StatusOr<std::string> AddressOf(absl::string_view host, absl::string_view port) {
  const absl::StatusOr<int> number = ParseInt(port, 0, UINT16_MAX);
  if (!number.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--port: '", LogSafe(port), "' ", number.status().message()));
  }
  absl::string_view bare = host;
  if (absl::ConsumePrefix(&bare, "[")) absl::ConsumeSuffix(&bare, "]");
  const std::string address =
      HostPort{.host = std::string(bare), .port = static_cast<uint16_t>(*number)}.ToString();
  const bool has_port = std::count(bare.begin(), bare.end(), ':') == 1;
  if (bare.empty() || has_port || !ParseHostPort(address).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--host: '", LogSafe(host),
                     "' is not a name or an IP address; the port is given by --port"));
  }
  return address;
}

absl::Span<const ForeignFlag> ForeignFlags() { return kForeignFlags; }

std::vector<std::string> FlagsIn(absl::string_view advice) {
  std::vector<std::string> flags;
  for (size_t begin = advice.find("--"); begin != absl::string_view::npos;) {
    const absl::string_view rest = advice.substr(begin);
    const auto end = std::find_if(rest.begin(), rest.end(), [](char c) {
      return c != '-' && !absl::ascii_isalnum(static_cast<unsigned char>(c));
    });
    flags.emplace_back(rest.begin(), end);
    begin = advice.find("--", begin + flags.back().size());
  }
  return flags;
}

std::string AdviceOnFlag(absl::string_view word, const std::vector<std::string>& flags) {
  for (const ForeignFlag& foreign : kForeignFlags) {
    if (foreign.word != word) continue;
    std::vector<std::string> needed = FlagsIn(foreign.advice);
    if (!foreign.needs.empty()) needed.push_back(absl::StrCat("--", foreign.needs));
    const bool fits = std::all_of(needed.begin(), needed.end(),
                                  [&](const std::string& flag) { return Has(flags, flag); });
    if (fits) return std::string(foreign.advice);
  }
  return "";
}

std::vector<std::string> WithOwnCommand(std::vector<std::string> arguments,
                                        const std::vector<std::string>& commands) {
  if (arguments.empty() || Has(commands, arguments.front())) return arguments;
  if (arguments.front() == "version") {
    arguments.front() = "--version";
  } else if (arguments.front() == "help") {
    arguments.erase(arguments.begin());
    arguments = WithOwnCommand(std::move(arguments), commands);
    arguments.emplace_back("--help");
  } else {
    for (const auto& [other, own] : kOtherCommands) {
      if (arguments.front() == other && Has(commands, own)) arguments.front() = std::string(own);
    }
  }
  return arguments;
}

absl::string_view AdviceOnCommand(absl::string_view word) {
  for (const auto& [command, advice] : kForeignCommands) {
    if (command == word) return advice;
  }
  return "";
}

}  // namespace baton
