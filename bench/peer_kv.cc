// Measures how the types of llama.cpp's KV cache change a model's distributions. peer_kv.py
// compiles it against the library of llama.cpp that peer_server.py builds, and reports what it
// prints.
//
//   peer_kv MODEL.gguf      passages on standard input: a line of token ids each
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "llama.h"

namespace {

using LogProbabilities = std::vector<float>;  // [vocab_size]

struct Cache {
  const char* name;
  ggml_type type;
  bool rotated;  // as llama.cpp does by default with quantised types
};

constexpr Cache kCaches[] = {{"f16", GGML_TYPE_F16, true},
                             {"q8_0", GGML_TYPE_Q8_0, true},
                             {"q4_0", GGML_TYPE_Q4_0, true},
                             {"q4_0, not rotated", GGML_TYPE_Q4_0, false}};

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "peer_kv: %s\n", what);
  std::exit(1);
}

std::vector<std::vector<llama_token>> ReadPassages() {
  std::vector<std::vector<llama_token>> passages;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    std::vector<llama_token>& tokens = passages.emplace_back();
    for (llama_token token = 0; in >> token;) tokens.push_back(token);
  }
  return passages;
}

LogProbabilities LogSoftmax(const float* logits, int vocab_size) {
  const double most = *std::max_element(logits, logits + vocab_size);
  double sum = 0;
  for (int i = 0; i < vocab_size; ++i) sum += std::exp(logits[i] - most);
  LogProbabilities result;
  result.reserve(static_cast<size_t>(vocab_size));
  for (int i = 0; i < vocab_size; ++i) {
    result.push_back(static_cast<float>(logits[i] - most - std::log(sum)));
  }
  return result;
}

// Returns what may follow each token of each passage, in their order. Each passage is one batch, which
// reads its own KV from the cache.
std::vector<LogProbabilities> Forward(llama_model* model, const Cache& cache,
                                      std::vector<std::vector<llama_token>> passages) {
  // The library reads it when it makes a cache.
  setenv("LLAMA_ATTN_ROT_DISABLE", cache.rotated ? "0" : "1", /*overwrite=*/1);
  const int vocab_size = llama_vocab_n_tokens(llama_model_get_vocab(model));
  std::vector<LogProbabilities> result;
  for (std::vector<llama_token>& tokens : passages) {
    const auto count = static_cast<int32_t>(tokens.size());
    llama_context_params params = llama_context_default_params();
    params.n_ctx = params.n_batch = params.n_ubatch = static_cast<uint32_t>(count);
    params.type_k = params.type_v = cache.type;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;  // a quantised V needs it
    const std::unique_ptr<llama_context, decltype(&llama_free)> context(
        llama_init_from_model(model, params), &llama_free);
    if (context == nullptr) Fail("llama.cpp makes no context");
    llama_batch batch = llama_batch_get_one(tokens.data(), count);
    std::vector<int8_t> all(tokens.size(), 1);
    batch.logits = all.data();  // wanted of every token, not of the last alone
    if (llama_decode(context.get(), batch) != 0) Fail("llama.cpp computes no passage");
    for (int32_t i = 0; i < count; ++i) {
      result.push_back(LogSoftmax(llama_get_logits_ith(context.get(), i), vocab_size));
    }
  }
  return result;
}

size_t Top(const LogProbabilities& row) {
  return static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

// Pooled over all tokens, as kv_types_smollm2_test does it.
void Print(const char* name, const std::vector<std::vector<llama_token>>& passages,
           const std::vector<LogProbabilities>& reference,
           const std::vector<LogProbabilities>& rows) {
  double kl = 0;
  int same_top = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t token = 0; token < rows[i].size(); ++token) {
      const double log_p = reference[i][token];
      kl += std::exp(log_p) * (log_p - rows[i][token]);
    }
    if (Top(reference[i]) == Top(rows[i])) ++same_top;
  }
  double nll = 0;
  int predicted = 0;
  auto row = rows.begin();
  for (const std::vector<llama_token>& tokens : passages) {
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      nll -= row[static_cast<std::ptrdiff_t>(i)][static_cast<size_t>(tokens[i + 1])];
      ++predicted;
    }
    row += static_cast<std::ptrdiff_t>(tokens.size());
  }
  const auto count = static_cast<double>(rows.size());
  std::printf(
      "KL(KV of f16 || of %s) = %.5f over %zu tokens, same top token %.1f %%, perplexity %.3f\n",
      name, kl / count, rows.size(), 100 * same_top / count, std::exp(nll / predicted));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) Fail("wants a model file");
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
  const std::unique_ptr<llama_model, decltype(&llama_model_free)> model(
      llama_model_load_from_file(argv[1], llama_model_default_params()), &llama_model_free);
  if (model == nullptr) Fail("llama.cpp does not load the model");
  const std::vector<std::vector<llama_token>> passages = ReadPassages();
  std::vector<LogProbabilities> reference;
  for (const Cache& cache : kCaches) {
    std::vector<LogProbabilities> rows = Forward(model.get(), cache, passages);
    if (reference.empty()) reference = rows;
    Print(cache.name, passages, reference, rows);
  }
}
