#include "common/grammar/schema_disjoint.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/match.h"

namespace baton {
namespace {

constexpr int kMaxSteps = 4096;  // schemas looked at for one question; references may go in circles

const SchemaJson& Member(const SchemaJson& schema, const char* name) {
  static const SchemaJson* const none = new SchemaJson;
  const auto found = schema.find(name);
  return found == schema.end() ? *none : *found;
}

class Comparison {
 public:
  explicit Comparison(const SchemaJson& root) : root_(root) {}

  bool Disjoint(const SchemaJson& one, const SchemaJson& other) {
    if (++steps_ > kMaxSteps) return false;
    const SchemaJson& a = Followed(one);
    const SchemaJson& b = Followed(other);
    if (!a.is_object() || !b.is_object()) return false;
    for (const char* keyword : {"anyOf", "oneOf"}) {
      if (a.contains(keyword)) return AllDisjoint(a[keyword], b);
      if (b.contains(keyword)) return AllDisjoint(b[keyword], a);
    }
    return TypesDisjoint(a, b) || ValuesDisjoint(a, b) || ObjectsDisjoint(a, b);
  }

 private:
  // What the references of `schema` lead to.
  const SchemaJson& Followed(const SchemaJson& schema) {
    const SchemaJson* at = &schema;
    while (at->is_object() && ++steps_ < kMaxSteps) {
      const SchemaJson& to = Member(*at, "$ref");
      if (!to.is_string() || !absl::StartsWith(to.get<std::string>(), "#/")) break;
      try {
        at = &root_.at(SchemaJson::json_pointer(to.get<std::string>().substr(1)));
      } catch (const SchemaJson::exception&) {  // it leads nowhere; CheckSchema reports that
        break;
      }
    }
    return *at;
  }

  bool AllDisjoint(const SchemaJson& alternatives, const SchemaJson& schema) {
    return alternatives.is_array() &&
           std::all_of(alternatives.begin(), alternatives.end(),
                       [&](const SchemaJson& one) { return Disjoint(one, schema); });
  }

  // The constants of a schema; null if it has none.
  static SchemaJson Values(const SchemaJson& schema) {
    if (schema.contains("const")) return SchemaJson::array({schema["const"]});
    return Member(schema, "enum");
  }

  // The types of its values, integers among the numbers; empty if they may be of any.
  static std::set<std::string> Types(const SchemaJson& schema) {
    std::set<std::string> types;
    if (const SchemaJson values = Values(schema); values.is_array()) {
      for (const SchemaJson& value : values) types.insert(value.type_name());
      return types;
    }
    const SchemaJson& named = Member(schema, "type");
    for (const SchemaJson& type : named.is_array() ? named : SchemaJson::array({named})) {
      if (type.is_string()) types.insert(type == "integer" ? "number" : type.get<std::string>());
    }
    return types;
  }

  static bool TypesDisjoint(const SchemaJson& a, const SchemaJson& b) {
    const std::set<std::string> types = Types(a);
    const std::set<std::string> others = Types(b);
    return !types.empty() && !others.empty() &&
           std::none_of(types.begin(), types.end(),
                        [&](const std::string& type) { return others.count(type) > 0; });
  }

  // Arrays and objects may be equal though they are written otherwise.
  static bool ValuesDisjoint(const SchemaJson& a, const SchemaJson& b) {
    const SchemaJson values = Values(a);
    const SchemaJson others = Values(b);
    if (!values.is_array() || !others.is_array()) return false;
    for (const SchemaJson& value : values) {
      for (const SchemaJson& other : others) {
        if (value == other || (value.is_structured() && other.is_structured())) return false;
      }
    }
    return true;
  }

  // Whether every object of `a` has a property that no object of `b` has, or has so.
  bool ObjectsDisjoint(const SchemaJson& a, const SchemaJson& b) {
    if (Member(a, "type") != "object" || Member(b, "type") != "object") return false;
    return ToldApart(a, b) || ToldApart(b, a);
  }

  bool ToldApart(const SchemaJson& a, const SchemaJson& b) {
    // tests/planted_bugs: schema_optional_property_tells_apart
    const SchemaJson& required = Member(a, "required");
    const SchemaJson& properties = Member(a, "properties");
    const SchemaJson& others = Member(b, "properties");
    const bool closed = Member(b, "additionalProperties") == false;
    for (const SchemaJson& name : required.is_array() ? required : SchemaJson::array()) {
      if (!name.is_string()) continue;
      const auto mine = properties.find(name.get<std::string>());
      const auto its = others.find(name.get<std::string>());
      if (its == others.end() ? closed : mine != properties.end() && Disjoint(*mine, *its)) {
        return true;
      }
    }
    return false;
  }

  const SchemaJson& root_;
  int steps_ = 0;
};

}  // namespace

bool AreDisjoint(const SchemaJson& a, const SchemaJson& b, const SchemaJson& root) {
  return Comparison(root).Disjoint(a, b);
}

}  // namespace baton
