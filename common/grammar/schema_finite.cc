#include "common/grammar/schema_finite.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

using Json = SchemaJson;

constexpr const char* kScalars[] = {"string", "number", "integer", "boolean", "null"};
constexpr const char* kAboutObjects[] = {"properties", "required", "additionalProperties",
                                         "minProperties", "maxProperties"};
constexpr const char* kAboutArrays[] = {"items", "prefixItems", "additionalItems", "minItems",
                                        "maxItems"};

const Json& KeywordOf(const Json& schema, const char* name) {
  static const Json* const none = new Json;
  const auto found = schema.find(name);
  return found == schema.end() ? *none : *found;
}

size_t CountOf(const Json& schema, const char* keyword, size_t unset) {
  const Json& count = KeywordOf(schema, keyword);
  return count.is_number_integer() ? static_cast<size_t>(count.get<int64_t>()) : unset;
}

// What must have a finite value so that something else has one. The parts of the schema are nodes,
// and so are choices among them.
class FiniteValues {
 public:
  explicit FiniteValues(const Json& schema) : root_(schema) { PartOf("", schema); }

  absl::Status Check() {
    for (size_t i = 0; i < nodes_.size(); ++i) {  // the loop adds nodes
      if (nodes_[i].schema != nullptr) Read(i);
    }
    Settle();
    for (const Node& node : nodes_) {
      if (node.missing == 0 || node.schema == nullptr) continue;
      return SchemaNotSupported(node.pointer,
                                "it leads back to itself in every way, so that no answer could "
                                "end; make a part of it optional, or allow null or an empty array");
    }
    return absl::OkStatus();
  }

 private:
  struct Node {
    std::string pointer{};
    const Json* schema = nullptr;  // null: a choice
    size_t missing = 0;            // finite values that it still wants
    std::vector<size_t> wanted_by{};
  };

  // The node of the part at `pointer`.
  size_t PartOf(const std::string& pointer, const Json& schema) {
    const auto [known, is_new] = parts_.emplace(pointer, nodes_.size());
    if (is_new) nodes_.push_back({.pointer = pointer, .schema = &schema});
    return known->second;
  }
  // A node that wants so many of those that Want names for it.
  size_t Choice(size_t count) {
    nodes_.push_back({.missing = count});
    return nodes_.size() - 1;
  }
  void Want(size_t node, size_t wanted) { nodes_[wanted].wanted_by.push_back(node); }
  void WantAlso(size_t node, size_t wanted) {
    ++nodes_[node].missing;
    Want(node, wanted);
  }

  void Read(size_t node);
  void ReadTyped(size_t node, const Json& schema, const std::string& pointer);
  void ReadObject(size_t node, const Json& schema, const std::string& pointer);
  void ReadArray(size_t node, const Json& schema, const std::string& pointer);
  void Settle();

  const Json& root_;
  std::vector<Node> nodes_;
  std::map<std::string, size_t> parts_;  // nodes by pointers
};

void FiniteValues::Read(size_t node) {
  const Json& schema = *nodes_[node].schema;
  const std::string pointer = nodes_[node].pointer;
  if (!schema.is_object()) return;
  if (const Json& to = KeywordOf(schema, "$ref"); to.is_string()) {
    const std::string target = to.get<std::string>().substr(1);
    const auto known = parts_.find(target);
    return WantAlso(node, known != parts_.end()
                              ? known->second
                              : PartOf(target, root_.at(Json::json_pointer(target))));
  }
  if (schema.contains("const") || schema.contains("enum")) return;
  for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
    const Json& schemas = KeywordOf(schema, keyword);
    if (!schemas.is_array()) continue;
    nodes_[node].missing = 1;  // allOf has one
    for (size_t i = 0; i < schemas.size(); ++i) {
      const std::string at = absl::StrCat(pointer, "/", keyword, "/", i);
      Want(node, PartOf(at, schemas[i]));
    }
    return;
  }
  ReadTyped(node, schema, pointer);
}

void FiniteValues::ReadTyped(size_t node, const Json& schema, const std::string& pointer) {
  const Json& named = KeywordOf(schema, "type");
  const auto has = [&](const char* type) {
    return named.is_array() ? std::find(named.begin(), named.end(), type) != named.end()
                            : named == type;
  };
  const auto has_any_of = [&](const auto& keywords) {
    return std::any_of(std::begin(keywords), std::end(keywords),
                       [&](const char* keyword) { return schema.contains(keyword); });
  };
  const bool is_object = has("object") || (named.is_null() && has_any_of(kAboutObjects));
  const bool is_array = has("array") || (named.is_null() && has_any_of(kAboutArrays));
  if (!is_object && !is_array) return;
  nodes_[node].missing = 1;
  const auto add_type = [&](auto read) {
    const size_t of_type = Choice(0);
    (this->*read)(of_type, schema, pointer);
    Want(node, of_type);
  };
  if (is_object) add_type(&FiniteValues::ReadObject);
  if (is_array) add_type(&FiniteValues::ReadArray);
  if (std::any_of(std::begin(kScalars), std::end(kScalars), has)) Want(node, Choice(0));
}

void FiniteValues::ReadObject(size_t node, const Json& schema, const std::string& pointer) {
  const Json& properties = KeywordOf(schema, "properties");
  std::set<std::string> required;
  for (const Json& name : KeywordOf(schema, "required")) required.insert(name.get<std::string>());
  const Json& others = KeywordOf(schema, "additionalProperties");
  const size_t least = CountOf(schema, "minProperties", 0);
  const bool may_have_more = CountOf(schema, "maxProperties", 1) > 0;
  const size_t more = Choice(0);  // properties that are not required, but whose number is
  size_t optional = 0;
  for (const auto& [name, property] : properties.items()) {
    const bool must = required.count(name) > 0;
    if (!must && !may_have_more) continue;
    const size_t part = PartOf(ChildPointer(ChildPointer(pointer, "properties"), name), property);
    if (must) {
      WantAlso(node, part);
    } else {
      Want(more, part);
      ++optional;
    }
  }
  size_t wanted = least - std::min(least, required.size());
  if (others.is_object() && !others.empty() && may_have_more) {
    Want(more, PartOf(ChildPointer(pointer, "additionalProperties"), others));
    ++optional;
  } else if (properties.empty() && others != false) {
    wanted = 0;  // others may have any value
  }
  nodes_[more].missing = std::min(wanted, optional);
  WantAlso(node, more);
}

void FiniteValues::ReadArray(size_t node, const Json& schema, const std::string& pointer) {
  const bool old = KeywordOf(schema, "items").is_array();
  const char* const first = old ? "items" : "prefixItems";
  const char* const others = old ? "additionalItems" : "items";
  const Json& items = KeywordOf(schema, first);
  const size_t least = CountOf(schema, "minItems", 0);
  const size_t most = CountOf(schema, "maxItems", kMaxSchemaCount);
  for (size_t i = 0; i < std::min(items.size(), most); ++i) {
    const size_t part = PartOf(absl::StrCat(pointer, "/", first, "/", i), items[i]);
    if (i < least) WantAlso(node, part);
  }
  const Json& rest = KeywordOf(schema, others);
  if (!rest.is_object() || most <= items.size()) return;
  const size_t part = PartOf(ChildPointer(pointer, others), rest);
  if (items.size() < least) WantAlso(node, part);
}

void FiniteValues::Settle() {
  std::vector<size_t> finite;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].missing == 0) finite.push_back(i);
  }
  while (!finite.empty()) {
    const size_t node = finite.back();
    finite.pop_back();
    for (const size_t by : nodes_[node].wanted_by) {
      if (nodes_[by].missing > 0 && --nodes_[by].missing == 0) finite.push_back(by);
    }
  }
}

}  // namespace

absl::Status CheckFinite(const SchemaJson& schema) { return FiniteValues(schema).Check(); }

}  // namespace baton
