// Compiles grammars in processes of their own, since XGrammar can neither be stopped nor bounded,
// and a client decides what it has to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "common/grammar/grammar_spec.h"

namespace baton {

// What one compilation may take.
struct GrammarLimits {
  int cpu_seconds = 2;
  size_t memory_bytes =
      size_t{1} << 30;  // address space; a build with sanitizers has no such limit
  size_t stack_bytes = size_t{8} << 20;
  absl::Duration wall_time = absl::Seconds(10);  // a machine may be busy with other things
};

// Thread-safe: Compile may run in several threads at once, each with a process of its own.
class GrammarCompiler {
 public:
  // `program` is the path of baton-grammar-compiler, `vocabulary` what SerializeVocabulary
  // returned. NOT_FOUND if the program cannot be executed; RESOURCE_EXHAUSTED if there is no memory
  // file.
  static absl::StatusOr<std::unique_ptr<GrammarCompiler>> Create(std::string program,
                                                                 absl::string_view vocabulary,
                                                                 const GrammarLimits& limits);
  ~GrammarCompiler();

  // Returns what CompiledGrammar::Parse reads, within limits.wall_time. INVALID_ARGUMENT names the
  // field of `spec` and what is wrong with it, or that it takes more CPU time, memory or stack than
  // the limits allow; RESOURCE_EXHAUSTED if no process can be made, the time is up, or the kernel
  // ended the process for want of memory; INTERNAL if the program does not work. `is_wanted` is
  // asked on this thread, every 10 ms; if it says no, the process is ended, and the result is
  // CANCELLED. No process is left in any case.
  absl::StatusOr<std::string> Compile(const GrammarSpec& spec,
                                      absl::FunctionRef<bool()> is_wanted) const;

 private:
  GrammarCompiler(std::string program, int vocabulary_fd, const GrammarLimits& limits)
      : program_(std::move(program)), vocabulary_fd_(vocabulary_fd), limits_(limits) {}

  const std::string program_;
  const int vocabulary_fd_;  // a memory file, which every process maps
  const GrammarLimits limits_;
};

}  // namespace baton
