#include "tests/common/jinja/random_template.h"

#include <random>
#include <vector>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

class Writer {
 public:
  explicit Writer(uint64_t seed) : random_(seed) {}

  std::string Template() {
    source_ =
        "{% set c = messages[0].content %}"
        "{% set ns = namespace(t='ab ', l=['a', 'b '], n=3, d={'a': 1}) %}"
        "{% macro m(t, l) %}{{ t | upper }}{{ l | length }}{% endmacro %}";
    for (int statements = 1 + Below(6); statements > 0; --statements) Statement(0);
    return source_;
  }

 private:
  int Below(int end) { return static_cast<int>(random_() % static_cast<uint64_t>(end)); }
  std::string Pick(const std::vector<std::string>& choices) {
    return choices[static_cast<size_t>(Below(static_cast<int>(choices.size())))];
  }
  template <typename... Parts>
  void Write(const Parts&... parts) {
    if (source_.size() < (size_t{16} << 10)) absl::StrAppend(&source_, parts...);
  }

  void Block(int depth) {
    for (int statements = 1 + Below(3); statements > 0; --statements) Statement(depth + 1);
  }

  void Statement(int depth) {
    // A block that is begun must fit with its end.
    const int kind = depth >= 4 || source_.size() > (size_t{8} << 10) ? 4 + Below(4) : Below(8);
    switch (kind) {
      case 0:
      case 1:
        Write("{% for x in ", List(0), Below(4) == 0 ? " if " + Bool(0) : "", " %}");
        Block(depth);
        Write("{% endfor %}");
        break;
      case 2:
        Write("{% if ", Bool(0), " %}");
        Block(depth);
        Write("{% endif %}");
        break;
      case 3:
        Write("{% set t %}");
        Block(depth);
        Write("{% endset %}{% set ns.t = t %}");
        break;
      case 4:
        Write("{% set ns.t = ", Text(0), " %}");
        break;
      case 5:
        Write("{% set ns.l = ", List(0), " %}");
        break;
      case 6:
        Write("{% set ns.n = ", Int(0), " %}");
        break;
      default:
        Write("{{ ", Text(0), " }}");
    }
  }

  std::string Text(int depth) {
    if (depth > 3) return Pick({"c", "ns.t", "'a'", "', '", "''", "'\\u00e9'", "(x ~ '')"});
    ++depth;
    switch (Below(16)) {
      case 0:
        return absl::StrCat("(", Text(depth), " ~ ", Text(depth), ")");
      case 1:
        return absl::StrCat("(", Text(depth), " * ", Int(depth), ")");
      case 2:
        return absl::StrCat("(", Text(depth), " | ",
                            Pick({"upper", "lower", "title", "capitalize", "trim", "reverse"}),
                            ")");
      case 3:
        return absl::StrCat(Text(depth), ".replace(", Text(depth), ", ", Text(depth), ")");
      case 4:
        return absl::StrCat("(", List(depth), " | join(", Text(depth), "))");
      case 5:
        return absl::StrCat(Text(depth), "[", Int(depth), ":", Int(depth), ":",
                            Pick({"1", "-1", "3"}), "]");
      case 6:
        return absl::StrCat("(", List(depth), " | tojson(indent=", Pick({"none", "16"}), "))");
      case 7:
        return absl::StrCat(Text(depth), Pick({".strip(", ".lstrip(", ".rstrip("}), Text(depth),
                            ")");
      case 8:
        return absl::StrCat("m(", Text(depth), ", ", List(depth), ")");
      case 9:
        return absl::StrCat("(", List(depth), " | ", Pick({"first", "last"}), " | string)");
      case 10:
        return absl::StrCat("(", Text(depth), " if ", Bool(depth), " else ", Text(depth), ")");
      default:
        return Text(4);
    }
  }

  std::string Int(int depth) {
    if (depth > 3) return Pick({"ns.n", "2", "-1", "64", "1000", "100000", "3000000"});
    ++depth;
    switch (Below(10)) {
      case 0:
        return absl::StrCat("(", List(depth), " | length)");
      case 1:
        return absl::StrCat("(", Text(depth), " | length)");
      case 2:
        return absl::StrCat(Text(depth), ".find(", Text(depth), ")");
      case 3:
        return absl::StrCat("(", Int(depth), Pick({" + ", " - ", " * "}), Int(depth), ")");
      default:
        return Int(4);
    }
  }

  std::string List(int depth) {
    if (depth > 3) return Pick({"ns.l", "range(100)", "['a', 'b']", "messages"});
    ++depth;
    switch (Below(14)) {
      case 0:
        return absl::StrCat("range(", Int(depth), ")");
      case 1:
        return absl::StrCat(Text(depth), ".split(", Pick({"", "','", Text(depth)}), ")");
      case 2:
        return absl::StrCat("(", Text(depth), " | list)");
      case 3:
        return absl::StrCat("(", List(depth), " + ", List(depth), ")");
      case 4:
        return absl::StrCat("(", List(depth), " * ", Int(depth), ")");
      case 5:
        return absl::StrCat("[", Text(depth), ", ", List(depth), ", ", Int(depth), "]");
      case 6:
        return absl::StrCat("(", List(depth), " | map('", Pick({"length", "string", "list"}),
                            "') | list)");
      case 7:
        return absl::StrCat("(", List(depth), " | select('", Pick({"in", "eq", "ne"}), "', ",
                            Pick({List(depth), Text(depth)}), ") | list)");
      case 8:
        return absl::StrCat("(", List(depth), " | reverse | list)");
      case 9:
        return absl::StrCat(List(depth), "[", Int(depth), ":", Int(depth), "]");
      case 10:
        return absl::StrCat("{", Text(depth), ": ", List(depth), ", ", Int(depth), ": 1}.",
                            Pick({"items()", "keys()", "values()"}));
      default:
        return List(4);
    }
  }

  std::string Bool(int depth) {
    if (depth > 3) return Pick({"true", "ns.n > 2", "ns.t"});
    ++depth;
    switch (Below(6)) {
      case 0:
        return absl::StrCat("(", Text(depth), " in ", Text(depth), ")");
      case 1:
        return absl::StrCat(Text(depth), Pick({".startswith(", ".endswith("}), Text(depth), ")");
      case 2:
        return absl::StrCat("(", List(depth), " == ", List(depth), ")");
      case 3:
        return absl::StrCat("(", Text(depth), " in ", List(depth), ")");
      case 4:
        return absl::StrCat("(", Int(depth), " < ", Int(depth), ")");
      default:
        return absl::StrCat("(", Text(depth), " < ", Text(depth), ")");
    }
  }

  std::mt19937_64 random_;
  std::string source_;
};

}  // namespace

std::string RandomTemplate(uint64_t seed) { return Writer(seed).Template(); }

}  // namespace baton
