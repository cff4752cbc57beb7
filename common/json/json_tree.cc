#include "common/json/json_tree.h"

#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr size_t kPathKeyBytes = 256;  // most bytes of a key in a path

// The members of an object that has not ended. They become an object at its end, in one go: nlohmann's
// vector of members copies whole trees when it grows.
template <typename Json>
class Members {
 public:
  // Whether the key is new. The next value is its.
  bool AddKey(std::string key) {
    const auto [place, is_new] = places_.try_emplace(key, members_.size());
    at_ = place->second;
    if (is_new) members_.emplace_back(std::move(key), Json());
    return is_new;
  }
  void SetValue(Json value) { members_[at_].second = std::move(value); }

  size_t size() const { return members_.size(); }
  const std::string& key() const { return members_[at_].first; }

  Json Take() {
    Json object = Json::object();
    auto& map = object.template get_ref<typename Json::object_t&>();
    if constexpr (std::is_same_v<Json, nlohmann::ordered_json>) {
      map.reserve(members_.size());
      for (auto& [key, value] : members_) map.emplace_back(std::move(key), std::move(value));
    } else {
      for (auto& [key, value] : members_) map.emplace(std::move(key), std::move(value));
    }
    return object;
  }

 private:
  std::vector<std::pair<std::string, Json>> members_;
  absl::flat_hash_map<std::string, size_t> places_;
  size_t at_ = 0;
};

// Receives what the text has, in its order; each call returns whether to go on.
template <typename Json>
class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  using Kind = JsonFault::Kind;

  TreeBuilder(const JsonLimits& limits, JsonFault& fault) : limits_(limits), fault_(fault) {}

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(typename Json::number_integer_t value) override { return Add(value); }
  bool number_unsigned(typename Json::number_unsigned_t value) override {
    if (limits_.signed_integers && value > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return Fail(Kind::kInteger);
    }
    return Add(value);
  }
  bool number_float(typename Json::number_float_t value, const std::string&) override {
    return Add(value);
  }
  bool string(std::string& value) override { return Add(std::move(value)); }
  bool binary(typename Json::binary_t&) override { return false; }  // no text has it

  bool start_object(size_t) override { return Open(/*is_array=*/false); }
  bool start_array(size_t) override { return Open(/*is_array=*/true); }
  bool key(std::string& key) override {
    Members<Json>& members = levels_.back().members;
    const bool is_new = members.AddKey(std::move(key));
    if (!is_new && limits_.unique_keys) {
      fault_.key = members.key();
      return Fail(Kind::kRepeatedKey);
    }
    if (members.size() > limits_.object_keys) return Fail(Kind::kObjectKeys);
    if (++keys_ > limits_.keys) return Fail(Kind::kKeys);
    return Count();
  }
  bool end_object() override {
    Json object = levels_.back().members.Take();
    levels_.pop_back();
    Put(std::move(object));
    return true;
  }
  bool end_array() override {
    Json array = std::move(levels_.back().elements);
    levels_.pop_back();
    Put(std::move(array));
    return true;
  }
  bool parse_error(size_t byte, const std::string&,
                   const typename Json::exception& error) override {
    fault_.byte = byte;
    fault_.what = error.what();
    return Fail(Kind::kSyntax);
  }

  Json Take() { return std::move(root_); }

 private:
  // An object or array that has not ended.
  struct Level {
    bool is_array = false;
    typename Json::array_t elements{};
    Members<Json> members{};
  };

  bool Open(bool is_array) {
    if (levels_.size() >= limits_.depth) return Fail(Kind::kDepth);
    if (!Count()) return false;
    levels_.push_back({.is_array = is_array});
    return true;
  }
  bool Add(Json value) {
    if (!Count()) return false;
    Put(std::move(value));
    return true;
  }
  void Put(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
    } else if (levels_.back().is_array) {
      levels_.back().elements.push_back(std::move(value));
    } else {
      levels_.back().members.SetValue(std::move(value));
    }
  }
  bool Count() { return ++values_ <= limits_.values || Fail(Kind::kValues); }

  bool Fail(Kind kind) {
    fault_.kind = kind;
    fault_.path = Path();
    return false;
  }
  std::string Path() const {
    std::string path;
    for (size_t i = 0; i + 1 < levels_.size(); ++i) {
      const Level& level = levels_[i];
      if (level.is_array) {
        absl::StrAppend(&path, "[", level.elements.size(), "]");
      } else {
        absl::StrAppend(&path, path.empty() ? "" : ".",
                        level.members.key().substr(0, kPathKeyBytes));
      }
    }
    return path;
  }

  const JsonLimits& limits_;
  JsonFault& fault_;
  std::vector<Level> levels_;
  size_t values_ = 0;
  size_t keys_ = 0;
  Json root_;
};

}  // namespace

template <typename Json>
std::optional<Json> ParseJson(absl::string_view text, const JsonLimits& limits, JsonFault& fault) {
  // The library takes a zero byte for the text's end, whatever follows.
  if (const size_t zero = text.find('\0'); zero != absl::string_view::npos) {
    fault = {.kind = JsonFault::Kind::kSyntax, .byte = zero + 1, .what = "a byte is zero"};
    return std::nullopt;
  }
  TreeBuilder<Json> builder(limits, fault);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return std::nullopt;
  return builder.Take();
}

template std::optional<nlohmann::json> ParseJson(absl::string_view, const JsonLimits&, JsonFault&);
template std::optional<nlohmann::ordered_json> ParseJson(absl::string_view, const JsonLimits&,
                                                         JsonFault&);

nlohmann::ordered_json ParseOrderedJson(absl::string_view text) {
  using Json = nlohmann::ordered_json;
  JsonFault fault;
  return ParseJson<Json>(text, JsonLimits(), fault).value_or(Json(Json::value_t::discarded));
}

}  // namespace baton
