// baton-grammar-compiler CPU_SECONDS MEMORY_BYTES STACK_BYTES: the process of a GrammarCompiler. It
// compiles the spec on standard input for the vocabulary on descriptor 3, both of which are files
// in memory, and writes a byte with the code of a status, then the grammar or the error's message.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"

#include "common/base/small_file.h"
#include "common/base/standard_error.h"
#include "common/base/status_macros.h"
#include "common/grammar/compile_grammar.h"
#include "common/grammar/grammar_spec.h"
#include "common/grammar/grammar_vocabulary.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BATON_HAS_SHADOW_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BATON_HAS_SHADOW_MEMORY 1
#endif
#endif

namespace baton {
namespace {

constexpr int kVocabularyFd = 3;

// The process may use `text` of the resource, and is ended at `beyond` more.
bool SetLimit(decltype(RLIMIT_CPU) resource, const char* text, rlim_t beyond) {
  uint64_t limit = 0;
  if (!absl::SimpleAtoi(text, &limit)) return false;
  const rlimit limits{.rlim_cur = limit, .rlim_max = limit + beyond};
  return setrlimit(resource, &limits) == 0;
}

// The bytes of a file in memory, which stay until the process ends. Several processes have the
// vocabulary's file open at once, and share its position; so it is mapped.
absl::StatusOr<absl::string_view> Map(int fd) {
  struct stat about {};
  if (fstat(fd, &about) != 0) return absl::InternalError("no input");
  const auto size = static_cast<size_t>(about.st_size);
  void* bytes = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (bytes == MAP_FAILED) return absl::ResourceExhaustedError("cannot map the input into memory");
  return absl::string_view(static_cast<const char*>(bytes), size);
}

absl::StatusOr<std::string> CompileOrThrow() {
  BATON_ASSIGN_OR_RETURN(const absl::string_view input, Map(STDIN_FILENO));
  BATON_ASSIGN_OR_RETURN(const absl::string_view tokens, Map(kVocabularyFd));
  BATON_ASSIGN_OR_RETURN(const GrammarSpec spec, ParseGrammarSpec(input));
  BATON_ASSIGN_OR_RETURN(const auto vocabulary, GrammarVocabulary::Parse(tokens));
  return CompileGrammar(spec, *vocabulary);
}

bool WriteReply(absl::StatusCode code, absl::string_view text) {
  const char first = static_cast<char>(code);
  return WriteAll(STDOUT_FILENO, absl::string_view(&first, 1)) && WriteAll(STDOUT_FILENO, text);
}

// Ends the process as soon as an allocation fails. XGrammar catches std::bad_alloc in places and
// must not throw it in others, so that it could arrive as another error, or as none.
void EndWithoutMemory() { _exit(WriteReply(absl::StatusCode::kResourceExhausted, "") ? 0 : 1); }

absl::StatusOr<std::string> Compile() {
  try {
    return CompileOrThrow();
  } catch (const std::bad_alloc&) {  // thrown by allocations without `new`
    return absl::ResourceExhaustedError("");
  }
}

int Main(int argc, char** argv) {
  // What the parent had opened without the flag is not for a process that works on a client's text.
  close_range(kVocabularyFd + 1, ~0u, 0);
  // A second between the two limits of CPU time, since a process that reaches the second one looks
  // like one that the kernel ends because memory is short.
  bool limited = argc == 4 && SetLimit(RLIMIT_CORE, "0", 0) && SetLimit(RLIMIT_CPU, argv[1], 1) &&
                 SetLimit(RLIMIT_STACK, argv[3], 0);
#ifndef BATON_HAS_SHADOW_MEMORY
  // tests/planted_bugs: grammar_memory_unlimited
  limited = limited && SetLimit(RLIMIT_AS, argv[2], 0);
#endif
  if (!limited) {
    WriteErrorLine("baton-grammar-compiler", "usage: CPU_SECONDS MEMORY_BYTES STACK_BYTES");
    return 2;
  }
  std::set_new_handler(EndWithoutMemory);
  const absl::StatusOr<std::string> compiled = Compile();
  const bool written = compiled.ok()
                           ? WriteReply(absl::StatusCode::kOk, *compiled)
                           : WriteReply(compiled.status().code(), compiled.status().message());
  return written ? 0 : 1;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) { return baton::Main(argc, argv); }
