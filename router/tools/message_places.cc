#include "router/tools/message_places.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kSystem[] = "system";
constexpr char kUser[] = "user";

const std::string& RoleOf(const Json& message) {
  return message["role"].get_ref<const std::string&>();
}

std::string& ContentOf(Json& message) { return message["content"].get_ref<std::string&>(); }

bool IsSystem(const Json& message) {
  return RoleOf(message) == kSystem || RoleOf(message) == "developer";
}

// Whether text of a system message may be part of the message.
bool TakesText(const Json& message) {
  return RoleOf(message) == kUser || RoleOf(message) == "tool";
}

void Append(absl::string_view text, std::string& result) {
  absl::StrAppend(&result, result.empty() || text.empty() ? "" : "\n\n", text);
}

// Receives the messages of a chat in their order.
class Placer {
 public:
  explicit Placer(const ChatShape& shape) : shape_(shape) {}

  void Add(Json message) {
    if (IsSystem(message)) return AddSystem(std::move(message));
    if (!waiting_.empty() && TakesText(message)) {
      Append(ContentOf(message), waiting_);
      ContentOf(message) = std::exchange(waiting_, {});
    }
    FlushWaiting();
    AddOther(std::move(message));
  }

  Json Finish() {
    FlushWaiting();
    return std::move(placed_);
  }

 private:
  void AddSystem(Json message) {
    message["role"] = kSystem;
    const bool is_joined = placed_.size() == 1 && IsSystem(placed_[0]);
    const bool at_head = placed_.empty() || is_joined;
    if (is_joined || (!placed_.empty() && TakesText(placed_.back()) && !Keeps())) {
      Append(ContentOf(message), ContentOf(placed_.back()));
    } else if (at_head ? shape_.has_system : Keeps()) {
      placed_.push_back(std::move(message));
    } else {
      Append(ContentOf(message), waiting_);
    }
  }

  // Adds a message that no system wrote.
  void AddOther(Json message) {
    const bool joins = shape_.takes_turns && RoleOf(message) == kUser && !placed_.empty() &&
                       RoleOf(placed_.back()) == kUser;
    if (joins) {
      Append(ContentOf(message), ContentOf(placed_.back()));
    } else {
      placed_.push_back(std::move(message));
    }
  }

  void FlushWaiting() {
    if (waiting_.empty()) return;
    AddOther(Json{{"role", kUser}, {"content", std::exchange(waiting_, {})}});
  }

  bool Keeps() const { return shape_.later_system == LaterSystem::kKept; }

  const ChatShape& shape_;
  Json placed_ = Json::array();
  std::string waiting_;  // system texts behind a message that cannot include them
};

}  // namespace

void PlaceMessages(const ChatShape& shape, Json& messages) {
  Placer placer(shape);
  for (Json& message : messages) placer.Add(std::move(message));
  messages = placer.Finish();
}

}  // namespace baton
