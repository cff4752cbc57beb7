#include "common/grammar/grammar_compiler.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/grammar/compile_grammar.h"
#include "tests/common/grammar/smollm2_grammars.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::unique_ptr<GrammarCompiler> CompilerBy(const std::string& program,
                                            const GrammarLimits& limits = {}) {
  auto compiler = GrammarCompiler::Create(program, SerializeVocabulary(SmolLm2Tokenizer()), limits);
  EXPECT_TRUE(compiler.ok()) << compiler.status();
  return compiler.ok() ? *std::move(compiler) : nullptr;
}

absl::StatusOr<std::string> Compile(const GrammarCompiler& compiler, const GrammarSpec& spec) {
  return compiler.Compile(spec, [] { return true; });
}

class GrammarCompilerTest : public ::testing::Test {
 protected:
  // No process is left, neither running nor to be reaped.
  ~GrammarCompilerTest() override {
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
  }

  // With a busy machine's time, so that it is the CPU's that ends what takes long.
  std::unique_ptr<GrammarCompiler> compiler_ =
      CompilerBy(BATON_GRAMMAR_COMPILER, {.cpu_seconds = 1, .wall_time = absl::Seconds(60)});
};

constexpr char kTooLong[] = "takes more than 1 s to compile";

std::string Repeated(const std::string& text, int times) {
  std::string repeated;
  for (int i = 0; i < times; ++i) repeated += text;
  return repeated;
}

TEST_F(GrammarCompilerTest, CompilesAsThisProcessDoes) {
  for (const GrammarSpec& spec :
       {GrammarSpec(), SpecOf(GrammarKind::kRegex, "[a-z]+"),
        SpecOf(GrammarKind::kJsonSchema, R"({"type":"array","items":{"enum":[1,2]}})")}) {
    const absl::StatusOr<std::string> bytes = Compile(*compiler_, spec);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(*bytes, *CompileGrammar(spec, SmolLm2Vocabulary()));
  }
}

TEST_F(GrammarCompilerTest, SaysWhatTheClientHasToChange) {
  EXPECT_EQ(
      Compile(*compiler_, SpecOf(GrammarKind::kJsonSchema,
                                 R"({"type":"object","properties":{"a":{"uniqueItems":true}}})"))
          .status(),
      absl::InvalidArgumentError(
          "response_format.json_schema: /properties/a/uniqueItems is not supported: no "
          "grammar can say it; leave it out and check the answer"));
  EXPECT_EQ(Compile(*compiler_, SpecOf(GrammarKind::kRegex, "")).status(),
            absl::InvalidArgumentError("response_format.regex is empty"));
}

constexpr char kStatesWithoutEnd[] = "(a|b|c|[a-z]{1,999})?";

TEST_F(GrammarCompilerTest, HostileSpecsEndWithinTheLimits) {
  std::string choices;
  for (int i = 0; i < 20'000; ++i) absl::StrAppend(&choices, i > 0 ? "," : "", "\"value ", i, "\"");
  const struct {
    const char* what;
    GrammarSpec spec;
    const char* error;  // "": it compiles
  } cases[] = {
      {"states without end",
       SpecOf(GrammarKind::kRegex, "(" + Repeated(kStatesWithoutEnd, 600) + "){1,999}"), kTooLong},
      {"repetitions of repetitions",
       SpecOf(GrammarKind::kRegex, "((((a{1,9999}){1,9999}){1,9999}){1,9999}){1,9999}"),
       "more than "},  // a fast machine compiles it in time, and it is too large
      {"deep groups",
       SpecOf(GrammarKind::kRegex, std::string(100'000, '(') + "a" + std::string(100'000, ')')),
       "Nest layer exceeded"},
      {"deep parentheses",
       SpecOf(GrammarKind::kGrammar,
              "root ::= " + std::string(100'000, '(') + "\"a\"" + std::string(100'000, ')')),
       "Nest layer exceeded"},
      {"deep arrays",
       SpecOf(GrammarKind::kJsonSchema,
              Repeated(R"({"type":"array","items":)", 5'000) + "{}" + std::string(5'000, '}')),
       "is nested more than 64 deep"},
      {"a deep default",
       SpecOf(GrammarKind::kJsonSchema,
              R"({"default":)" + std::string(50'000, '[') + std::string(50'000, ']') + "}"),
       "is nested more than 64 deep"},
      {"a large enum",
       SpecOf(GrammarKind::kJsonSchema,
              "{\"enum\":[" + choices.substr(0, 250'000).substr(0, choices.rfind(',', 250'000)) +
                  "]}"),
       kTooLong},
      {"many properties",
       SpecOf(GrammarKind::kJsonSchema,
              [] {
                std::string schema = R"({"type":"object","properties":{)";
                for (int i = 0; i < 5'000; ++i) {
                  absl::StrAppend(&schema, i > 0 ? "," : "", "\"p", i, R"(":{"type":"string"})");
                }
                return schema + "}}";
              }()),
       kTooLong},
      {"a reference to itself", SpecOf(GrammarKind::kJsonSchema, R"({"$ref":"#"})"),
       "the schema is not supported: it leads back to itself in every way"},
      {"a megabyte",
       SpecOf(GrammarKind::kJsonSchema,
              R"({"type":"string","description":")" + std::string(1 << 20, 'x') + "\"}"),
       "has more than 262144 bytes"},
      {"left recursion", SpecOf(GrammarKind::kGrammar, "root ::= root root | root \"a\" | \"a\""),
       ""},
      {"a large maxLength",
       SpecOf(GrammarKind::kJsonSchema, R"({"type":"string","maxLength":2000000000})"),
       "/maxLength is not supported: it repeats characters 2000000000 times"},
      {"a large maxItems",
       SpecOf(GrammarKind::kJsonSchema,
              R"({"type":"array","items":{"type":"string"},"minItems":1000000000})"),
       ""},
  };
  for (const auto& [what, spec, error] : cases) {
    SCOPED_TRACE(what);
    const absl::StatusOr<std::string> compiled = Compile(*compiler_, spec);
    if (*error == '\0') {
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      EXPECT_TRUE(CompiledGrammar::Parse(*compiled, SmolLm2Vocabulary()).ok());
      continue;
    }
    EXPECT_EQ(compiled.status().code(), absl::StatusCode::kInvalidArgument) << compiled.status();
    const std::string message(compiled.status().message());
    EXPECT_THAT(message, StartsWith(std::string(GrammarField(spec.kind))));
    EXPECT_THAT(message, HasSubstr(error));
  }
}

TEST_F(GrammarCompilerTest, CompilesInSeveralThreadsAtOnce) {
  std::vector<absl::StatusOr<std::string>> compiled(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < compiled.size(); ++i) {
    threads.emplace_back([&, i] {
      compiled[i] = Compile(*compiler_, SpecOf(GrammarKind::kRegex, absl::StrCat("[a-f]+", i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < compiled.size(); ++i) {
    ASSERT_TRUE(compiled[i].ok()) << compiled[i].status();
    const auto grammar = CompiledGrammar::Parse(*compiled[i], SmolLm2Vocabulary());
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    EXPECT_TRUE(Allows(**grammar, absl::StrCat("abc", i)));
  }
}

TEST_F(GrammarCompilerTest, AProgramThatDoesNotAnswerIsEndedAtTheDeadline) {
  // It sleeps for as many seconds as the limits are together.
  const auto sleeping = CompilerBy("/bin/sleep", {.wall_time = absl::Milliseconds(50)});
  EXPECT_EQ(Compile(*sleeping, GrammarSpec()).status(),
            absl::ResourceExhaustedError("response_format.json_object: it was not compiled within "
                                         "50ms, since the machine is busy; try again later"));
}

TEST_F(GrammarCompilerTest, WhatNobodyWantsAnyMoreIsEnded) {
  const GrammarSpec spec =
      SpecOf(GrammarKind::kRegex, "(" + Repeated(kStatesWithoutEnd, 600) + "){1,999}");
  int asked = 0;
  const auto compiled = compiler_->Compile(spec, [&] { return ++asked < 3; });
  EXPECT_EQ(compiled.status().code(), absl::StatusCode::kCancelled) << compiled.status();
  EXPECT_EQ(asked, 3);
}

TEST_F(GrammarCompilerTest, AProgramThatWritesWithoutEndIsEnded) {
  EXPECT_EQ(Compile(*CompilerBy("/usr/bin/yes"), GrammarSpec()).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(GrammarCompilerTest, AProgramThatDoesNotWorkIsAnErrorOfOurs) {
  for (const char* program : {"/bin/true", "/bin/false"}) {
    EXPECT_EQ(Compile(*CompilerBy(program), GrammarSpec()).status().code(),
              absl::StatusCode::kInternal)
        << program;
  }
  const auto missing = GrammarCompiler::Create("/no/such/program", "", {});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("/no/such/program"));
}

TEST_F(GrammarCompilerTest, AProgramThatTheKernelEndsIsNotTheClientsFault) {
  const std::string program = testing::TempDir() + "ended_by_the_kernel.sh";
  std::ofstream(program) << "#!/bin/sh\nkill -KILL $$\n";
  ASSERT_EQ(chmod(program.c_str(), 0700), 0);
  EXPECT_EQ(Compile(*CompilerBy(program), GrammarSpec()).status(),
            absl::ResourceExhaustedError(
                "response_format.json_object: the kernel killed the process that compiled it, "
                "since the machine is short of memory; try again later"));
  unlink(program.c_str());
}

TEST_F(GrammarCompilerTest, WhereverItsMemoryEndsAFormIsRefusedWithTheLimit) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "address space has no limit here";
#endif
  std::string properties;
  for (int i = 0; i < 20; ++i) {
    absl::StrAppend(&properties, i > 0 ? "," : "", "\"p", i,
                    R"(":{"type":["string","integer","boolean","null"]})");
  }
  const GrammarSpec spec =
      SpecOf(GrammarKind::kJsonSchema, R"({"type":"object","properties":{)" + properties + "}}");
  constexpr size_t kStepMib = 8, kEnoughMib = 1024;
  int refusals = 0;
  for (size_t mib = 16; mib < kEnoughMib; mib += kStepMib) {
    const auto compiled = Compile(
        *CompilerBy(BATON_GRAMMAR_COMPILER,
                    {.cpu_seconds = 60, .memory_bytes = mib << 20, .wall_time = absl::Seconds(60)}),
        spec);
    if (compiled.ok()) break;
    ++refusals;
    EXPECT_EQ(compiled.status(),
              absl::InvalidArgumentError(absl::StrCat("response_format.json_schema: it takes more "
                                                      "than ",
                                                      mib, " MiB to compile; ask for less")));
  }
  EXPECT_GT(refusals, 3);
}

TEST_F(GrammarCompilerTest, MemoryIsBounded) {
  const auto small = CompilerBy(BATON_GRAMMAR_COMPILER, {.memory_bytes = size_t{16} << 20});
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "address space has no limit here";
#endif
  EXPECT_EQ(Compile(*small, GrammarSpec()).status(),
            absl::InvalidArgumentError("response_format.json_object: it takes more than 16 MiB to "
                                       "compile; ask for less"));
}

}  // namespace
}  // namespace baton
