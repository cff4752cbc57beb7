// The words of vLLM, llama-server, SGLang and ollama on the command lines of Baton. Words that mean
// the same as a flag or a command of Baton are other names for it. For the rest there is a sentence
// that says what to give instead. All of this is about command lines alone: no variable of the
// environment and no key of a file has such a name. All functions are pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace baton {

// Returns the other names of `flag`, which has no dashes: "-c" and "--ctx-size" for "max-model-len".
// A flag has one name of one letter at most, and none if it has one of its own.
std::vector<std::string> OtherNamesOf(absl::string_view flag);

// The flag whose address other servers take as --host and --port.
inline constexpr char kHostAndPortFlag[] = "http-listen";
inline constexpr char kDefaultHost[] = "127.0.0.1";
inline constexpr char kDefaultPort[] = "8080";
// Returns the address "host:port", "[host]:port" for IPv6. INVALID_ARGUMENT names --host or --port.
absl::StatusOr<std::string> AddressOf(absl::string_view host, absl::string_view port);

// A flag of another program.
struct ForeignFlag {
  absl::string_view word;  // with its dashes
  // The sentence. It is for commands that have each flag that it names.
  absl::string_view advice;
  // A further flag, without dashes, that such commands have; empty: none.
  absl::string_view needs = "";
};
absl::Span<const ForeignFlag> ForeignFlags();
// The flags that the sentence names, with their dashes.
std::vector<std::string> FlagsIn(absl::string_view advice);
// Returns the sentence about `word` for a command that has `flags`, all with dashes; empty if there
// is none.
std::string AdviceOnFlag(absl::string_view word, const std::vector<std::string>& flags);

// Returns `arguments` with the command of another program replaced by the one of `commands` that
// means the same: "list" by "models", "help run" by "run --help".
std::vector<std::string> WithOwnCommand(std::vector<std::string> arguments,
                                        const std::vector<std::string>& commands);
// Returns the sentence about a command of another program; empty if there is none.
absl::string_view AdviceOnCommand(absl::string_view word);

}  // namespace baton
