#include "common/flags/known_variables.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

#include "common/base/log.h"
#include "common/flags/arguments.h"

namespace baton {
namespace {

constexpr absl::string_view kPrefix = "BATON_";

// The flags of all programs, since a program hands its environment to those that it starts.
// tests/integration/test_command_line.py compares the list with what the programs say.
constexpr absl::string_view kFlags[] = {"access-log",
                                        "advertise",
                                        "advertised-host",
                                        "advice-time-per-token",
                                        "advice-utilisation",
                                        "advice-window",
                                        "advice-workers",
                                        "allow-mixed-revisions",
                                        "api-key-file",
                                        "api-keys",
                                        "audit-share",
                                        "batch",
                                        "block-size",
                                        "bytes",
                                        "check-config",
                                        "choice",
                                        "class",
                                        "connections",
                                        "cpu-isa",
                                        "cpu-set",
                                        "cuda-mps",
                                        "decode",
                                        "decode-rates",
                                        "decode-workers",
                                        "default-temperature",
                                        "default-top-p",
                                        "deterministic",
                                        "device",
                                        "disaggregate",
                                        "dns",
                                        "draft-model",
                                        "duration",
                                        "enable-prefix-caching",
                                        "endpoint",
                                        "expose-workers",
                                        "extra-body",
                                        "file",
                                        "fleet-secret-file",
                                        "folder",
                                        "force",
                                        "frequency-penalty",
                                        "front-socket",
                                        "front-uid",
                                        "generation-config",
                                        "goodput-target",
                                        "gpu-memory-utilization",
                                        "grammar",
                                        "grammar-compiler",
                                        "health-listen",
                                        "html",
                                        "http",
                                        "http-allow-host",
                                        "http-cors-origin",
                                        "http-listen",
                                        "http-model",
                                        "http-threads",
                                        "ignore-eos",
                                        "input-len",
                                        "input-scale",
                                        "insecure",
                                        "insecure-probes",
                                        "ip",
                                        "json",
                                        "json-object",
                                        "json-schema",
                                        "key-from",
                                        "kv-cache-dtype",
                                        "kv-cache-memory-bytes",
                                        "kv-connections",
                                        "kv-copy-threads",
                                        "kv-staging-memory-bytes",
                                        "kv-wire-dtype",
                                        "lifetime",
                                        "link-bytes-per-second",
                                        "listen",
                                        "log-format",
                                        "log-level",
                                        "logprobs",
                                        "lossy",
                                        "max-concurrency",
                                        "max-input-len",
                                        "max-model-len",
                                        "max-num-batched-tokens",
                                        "max-num-seqs",
                                        "max-output-len",
                                        "max-priority",
                                        "max-queue-time",
                                        "max-tokens",
                                        "max-waiting-bytes",
                                        "max-waiting-requests",
                                        "message",
                                        "metrics-listen",
                                        "metrics-vllm-names",
                                        "min-p",
                                        "min-priority",
                                        "min-tokens",
                                        "model",
                                        "model-alias",
                                        "model-sha256",
                                        "n",
                                        "n-depth",
                                        "n-gen",
                                        "n-prompt",
                                        "name",
                                        "num-kv-blocks",
                                        "num-prompts",
                                        "objective",
                                        "operator",
                                        "otlp-endpoint",
                                        "otlp-sample-ratio",
                                        "output-len",
                                        "output-scale",
                                        "plain-workers",
                                        "policy",
                                        "prefill",
                                        "prefill-workers",
                                        "presence-penalty",
                                        "prompt-logprobs",
                                        "quantize",
                                        "rates",
                                        "raw",
                                        "record",
                                        "reflection",
                                        "regex",
                                        "repetition-penalty",
                                        "repetitions",
                                        "request-overhead",
                                        "request-rate",
                                        "requests-per-second",
                                        "resume-timeout",
                                        "reuse-port",
                                        "rounds",
                                        "seed",
                                        "serve-key-file",
                                        "served-model-name",
                                        "server",
                                        "shape",
                                        "share",
                                        "shutdown-timeout",
                                        "special",
                                        "speculative",
                                        "stall-timeout",
                                        "stats",
                                        "stop",
                                        "streams",
                                        "strict-kv-dtype",
                                        "system",
                                        "temperature",
                                        "tenant",
                                        "threads",
                                        "time-scale",
                                        "timeout",
                                        "tls-ca",
                                        "tls-cert",
                                        "tls-client-ca",
                                        "tls-crl",
                                        "tls-key",
                                        "tls-server-name",
                                        "tokenizer-threads",
                                        "tokens-per-minute",
                                        "top-k",
                                        "top-p",
                                        "trace",
                                        "trace-file",
                                        "trace-file-bytes",
                                        "trace-start",
                                        "trust-domain",
                                        "vocab-size",
                                        "warmup",
                                        "watch",
                                        "weights",
                                        "workers-file",
                                        "write-gguf"};

// What the project's own programs, scripts, images and tests read beside flags.
constexpr absl::string_view kOthers[] = {"API_KEY",
                                         "ATTACKERS_KEY",
                                         "BIN",
                                         "CACHE",
                                         "CANCELS",
                                         "CANCEL_MODEL",
                                         "CONFIG",
                                         "CONTAINERS",
                                         "CORRUPTION_MESSAGES",
                                         "CUDA_ARCHITECTURES",
                                         "CUTS",
                                         "DEBIAN_MIRROR",
                                         "INSIDE",
                                         "INTERLEAVING_DISTURBANCES",
                                         "MAINTAINER",
                                         "MALFORMED",
                                         "PYTHON",
                                         "SEED",
                                         "SEEN_ACCESSES",
                                         "SILENT_STREAM_S",
                                         "SIM_LOG",
                                         "START_FAILPOINTS",
                                         "STUBS",
                                         "TEMPLATES",
                                         "VARIABLES_CHECKED",
                                         "WRITE_ACCESS_BUDGET"};
constexpr absl::string_view kPrefixesOfOthers[] = {"BENCH_", "FAILPOINT", "FRONT_", "PACKAGE_",
                                                   "TEST_"};

// As Kubernetes writes a Service's address into the environment of its pods: NAME_SERVICE_HOST,
// NAME_SERVICE_PORT, NAME_SERVICE_PORT_GRPC, NAME_PORT=tcp://..., NAME_PORT_50051_TCP_ADDR.
bool IsOfService(absl::string_view name, absl::string_view value) {
  if (absl::EndsWith(name, "_SERVICE_HOST") || absl::StrContains(name, "_SERVICE_PORT")) {
    return true;
  }
  if (absl::EndsWith(name, "_PORT")) return absl::StrContains(value, "://");
  const size_t port = name.find("_PORT_");
  if (port == absl::string_view::npos) return false;
  const absl::string_view number = name.substr(port + 6);
  return !number.empty() && absl::ascii_isdigit(static_cast<unsigned char>(number.front()));
}

}  // namespace

std::string EnvironmentName(absl::string_view flag) {
  return absl::StrCat(kPrefix, absl::StrReplaceAll(absl::AsciiStrToUpper(flag), {{"-", "_"}}));
}

bool IsKnownVariable(absl::string_view name, absl::string_view value,
                     const std::vector<std::string>& flags) {
  const auto is_flags = [name](absl::string_view flag) { return EnvironmentName(flag) == name; };
  const absl::string_view rest = absl::StripPrefix(name, kPrefix);
  return std::any_of(flags.begin(), flags.end(), is_flags) ||
         std::any_of(std::begin(kFlags), std::end(kFlags), is_flags) ||
         std::find(std::begin(kOthers), std::end(kOthers), rest) != std::end(kOthers) ||
         std::any_of(std::begin(kPrefixesOfOthers), std::end(kPrefixesOfOthers),
                     [rest](absl::string_view prefix) { return absl::StartsWith(rest, prefix); }) ||
         IsOfService(name, value);
}

bool TakeVariablesCheck() {
  const std::string checked = absl::StrCat(kPrefix, "VARIABLES_CHECKED");
  const bool first = std::getenv(checked.c_str()) == nullptr;
  setenv(checked.c_str(), "1", /*overwrite=*/1);
  return first;
}

std::vector<std::string> UnknownVariables(const std::vector<std::string>& flags) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const absl::string_view text = *entry;
    if (!absl::StartsWith(text, kPrefix)) continue;
    const size_t equals = std::min(text.find('='), text.size());
    variables.emplace(std::string(text.substr(0, equals)),
                      std::string(text.substr(std::min(equals + 1, text.size()))));
  }
  std::vector<std::string> names;
  for (const std::string& flag : flags) names.push_back(EnvironmentName(flag));
  std::vector<std::string> sentences;
  for (const auto& [name, value] : variables) {
    if (IsKnownVariable(name, value, flags)) continue;
    sentences.push_back(absl::StrCat("the variable ", LogSafe(name), " is ignored: no flag has it",
                                     DidYouMean(name, names)));
  }
  return sentences;
}

}  // namespace baton
