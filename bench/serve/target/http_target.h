// An OpenAI server by HTTP as the target of a load.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include <nlohmann/json.hpp>

#include "bench/serve/target/load_http_client.h"
#include "bench/serve/target/load_target.h"
#include "bench/serve/target/openai_stream.h"
#include "common/base/http_url.h"
#include "common/certificates/credentials.h"
#include "common/certificates/tls_flags.h"
#include "common/net/client_key.h"

namespace baton {

enum class HttpEndpoint {
  kCompletions,      // /v1/completions, with token ids as the prompt
  kChatCompletions,  // /v1/chat/completions, with one message of words, each about one token
};

class HttpTarget : public LoadTarget {
 public:
  struct Options {
    HttpUrl url;
    HttpEndpoint endpoint = HttpEndpoint::kCompletions;
    std::string model{};       // empty: the first that /v1/models has
    std::string extra_body{};  // JSON merged into each body (RFC 7396: null takes a field out)
    absl::Duration timeout = absl::Seconds(120);  // deadline of each request
    ClientKey key{};                              // shown in every request
  };
  // Asks for the model if there is none. An error names --http, --extra-body or a flag of TLS.
  static absl::StatusOr<std::unique_ptr<HttpTarget>> Create(const Options& options,
                                                            const TlsFlags& tls,
                                                            const Credentials& credentials);
  ~HttpTarget() override;

  void Send(const LoadRequest& request, LoadRecord& record) override;
  std::vector<LoadRecord*> Poll(absl::Time until) override;
  void Cancel(LoadRecord& record) override;

 private:
  struct Answer;

  HttpTarget(const Options& options, std::unique_ptr<LoadHttpClient> client);
  absl::Status AskModel();
  std::string Body(const LoadRequest& request) const;
  void End(LoadRecord& record, const LoadHttpResult& result);

  Options options_;
  nlohmann::json extra_body_;  // an object
  std::unique_ptr<LoadHttpClient> client_;
  std::unordered_map<LoadRecord*, std::unique_ptr<Answer>> answers_;
  std::vector<LoadRecord*> ended_;
};

// As many words as `ids`, each of which most tokenizers make one token of. Equal ids give equal
// words, so that equal beginnings stay equal.
std::string PromptWords(const std::vector<uint32_t>& ids);

}  // namespace baton
