// The HTTP API's answers about the model that run no prompt: its names, its tokenizer, and the
// tokens of texts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "router/api/answer_format.h"
#include "router/front/intake.h"
#include "router/http/message.h"
#include "router/web/routes.h"

namespace baton {

// Whether the route has a text tokenised.
bool Tokenizes(Route route);

// Thread-safe. Borrows all of Parts.
class ModelAnswers {
 public:
  struct Asked {
    const HttpRequest& head;
    const FoundRoute& route;
    const Caller& caller;
    const ApiContext& context;
    absl::string_view body;
  };
  explicit ModelAnswers(const Intake::Parts& parts) : parts_(parts) {}

  // The whole answer. Texts that are tokenised are charged to the caller. An error names the field,
  // or is UNIMPLEMENTED for a route that is not served.
  absl::StatusOr<HttpResponse> Answer(const Asked& asked) const;

 private:
  absl::StatusOr<HttpResponse> TokenizeAnswerFor(const Asked& asked) const;
  absl::StatusOr<std::string> BodyFor(const Asked& asked) const;
  absl::StatusOr<std::string> ModelsBody(const Asked& asked) const;
  // The model that the path names, by its first name if the path has an alias.
  absl::StatusOr<std::string> ModelBodyFor(const Asked& asked) const;
  std::string TokenizerInfoBodyFor() const;
  // Validates the request, tokenises its prompt and charges the tokens. Returns them.
  absl::StatusOr<std::vector<int32_t>> TokensOf(const Caller& caller,
                                                const v1::GenerateRequest& request) const;
  // Returns the number of those tokens.
  absl::StatusOr<uint32_t> CountOf(const Caller& caller,
                                   const absl::StatusOr<v1::GenerateRequest>& request) const;

  const Intake::Parts parts_;
};

}  // namespace baton
