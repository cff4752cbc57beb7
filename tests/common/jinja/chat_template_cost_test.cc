// Tests that no chat template costs more than 250 ms of CPU and 128 MiB, whatever it is given.
#include <time.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "common/jinja/chat_template.h"
#include "tests/common/jinja/chat_template_goldens.h"
#include "tests/common/jinja/random_template.h"
#include "tests/support/allocation_counter.h"

namespace baton {
namespace {

constexpr absl::Duration kMostCpu = absl::Milliseconds(250);
constexpr size_t kMostBytes = size_t{128} << 20;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kTimed = false;  // every access costs several
#else
constexpr bool kTimed = true;
#endif

absl::Duration ThreadCpuTime() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

// Compiles and renders, and fails the test if that costs too much.
absl::Status Render(const std::string& source, const Messages& messages) {
  const size_t before = LiveBytes();
  ResetPeakBytes();
  const absl::Duration begin = ThreadCpuTime();
  const absl::Status status = RenderSource(source, messages).status();
  const absl::Duration took = ThreadCpuTime() - begin;
  EXPECT_LE(PeakBytes() - before, kMostBytes) << source.substr(0, 2000) << "\n" << status;
  if (kTimed) {
    EXPECT_LE(took, kMostCpu) << source.substr(0, 2000) << "\n" << status;
  }
  return status;
}

Messages Saying(const std::string& content) {
  return {{.role = "user", .content = content, .name = ""}};
}

TEST(ChatTemplateCost, EndsShortTemplatesThatWouldRunForMinutes) {
  const std::vector<std::string> sources = {
      // startswith() of a long list, in a loop
      "{% set l=['x'] * 99999 %}{% for i in range(99999) %}{{ 'a'.startswith(l) }}{% endfor %}",
      // an attribute of a namespace that has many
      absl::StrCat(
          "{% set n=namespace() %}",
          [] {
            std::string all;
            for (int i = 0; i < 9999; ++i) absl::StrAppend(&all, "{% set n.a", i, "=1 %}");
            return all;
          }(),
          "{% for i in range(99999) %}{% set n.a9998=2 %}{{ n.a9998 }}{% endfor %}"),
      "{% for i in range(99999) %}{{ [c, c] * 9999 == [c, c] * 9999 }}{% endfor %}",
      "{% for i in range(999999) %}{{ '' * 999999999999 }}{% endfor %}",
      "{% for i in range(999999) %}{{ [] * 999999999999 }}{% endfor %}",
      "{% for i in range(999999) %}{% set x=messages[0].content[-1] %}{% endfor %}",
      "{% for i in range(999999) %}{% set x=messages[0].content[::-2] %}{% endfor %}",
      "{% for i in range(999999) %}{% set x=messages[0].content | length %}{% endfor %}",
      "{% for i in range(999999) %}{% set x=messages[0].content.find('aaaab') %}{% endfor %}",
      "{% for i in range(999999) %}{% set x=messages[0].content | upper %}{% endfor %}",
      "{% for i in range(999999) %}{% set x=messages[0].content.strip('cba') %}{% endfor %}",
      "{% for i in range(999999) %}{% set x=messages[0].content.split('a') %}{% endfor %}",
      "{% for i in range(999999) %}{% set x=messages[0].content | tojson %}{% endfor %}",
      "{% for i in range(999999) %}{% set x=messages[0].content | int %}{% endfor %}",
      "{% macro m(a) %}{% set b=[a, a] %}{{ m(b) }}{% endmacro %}{{ m(1) }}",
      "{{ raise_exception(messages[0].content * 5) }}",
      "{{ messages[messages[0].content * 5].x }}",
      "{{ (range(700000) | list) | tojson(indent=16) }}",
      "{{ messages[0].content | list | reverse | list | length }}",
      absl::StrCat("{% macro m() %}{{ [", std::string(60000, '1').replace(1, 0, ","),
                   "] }}{{ m() }}", "{% endmacro %}{{ m() }}"),
  };
  const Messages messages = Saying(std::string(size_t{3} << 20, 'a'));
  for (const std::string& source : sources) {
    const absl::Status status = Render(source, messages);
    EXPECT_FALSE(status.ok()) << source.substr(0, 200);
  }
}

TEST(ChatTemplateCost, CompilesTheLargestTemplatesWithinTheLimits) {
  const std::vector<std::string> parts = {
      "{{x}}",       "{#x#}",   "1,",        "x|d|", "[x],", "{%if x%}{%endif%}",
      "{%set x=1%}", "{{'a'}}", "{% raw %}", "{% ",  "a\n ", "x.y(z=1),"};
  for (const std::string& part : parts) {
    std::string source = part.find('{') == 0 || part == "a\n " ? "" : "{{ [";
    while (source.size() + part.size() + 10 < (size_t{256} << 10)) source += part;
    if (source.starts_with("{{ [")) source += "1] }}";
    (void)Render(source, Saying("a"));
  }
}

// BATON_TEMPLATES=100000 tries so many, from the seed in BATON_SEED.
TEST(ChatTemplateCost, BoundsEveryRandomTemplate) {
  const char* const count_text = std::getenv("BATON_TEMPLATES");
  const char* const seed_text = std::getenv("BATON_SEED");
  const uint64_t count = count_text != nullptr ? std::strtoull(count_text, nullptr, 10) : 1000;
  const uint64_t seed = seed_text != nullptr ? std::strtoull(seed_text, nullptr, 10) : 0;
  const std::vector<Messages> inputs = {Saying("a, b"), Saying(std::string(4000, 'a')),
                                        Saying(std::string(1000, ',') + "\u00e9 b")};
  uint64_t rendered = 0;
  uint64_t exhausted = 0;
  for (uint64_t i = 0; i < count && !HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("seed ", seed + i));
    const absl::Status status = Render(RandomTemplate(seed + i), inputs[i % inputs.size()]);
    if (status.ok()) ++rendered;
    if (absl::IsResourceExhausted(status)) ++exhausted;
  }
  RecordProperty("rendered", std::to_string(rendered));
  RecordProperty("exhausted", std::to_string(exhausted));
  EXPECT_GT(rendered, count / 4);
  EXPECT_GT(exhausted, count / 100);  // the templates are such that the limits matter
}

TEST(ChatTemplateCost, ACancelledRenderingEnds) {
  const auto compiled = ChatTemplate::Compile(
      "{% for i in range(99999) %}{% for i in range(99999) %}{% endfor %}{% endfor %}");
  ASSERT_TRUE(compiled.ok());
  const std::atomic<bool> cancelled = true;
  ChatTemplateOptions options = Options(true);
  options.cancelled = &cancelled;
  EXPECT_EQ(compiled->Render(Messages{}, options).status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace baton
