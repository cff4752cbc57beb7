#include "router/tools/tool_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/base/log.h"

namespace baton {
namespace {

constexpr size_t kMaxTypes = 8;  // types that a warning names

std::string ShownType(absl::string_view type) {
  constexpr size_t kMaxTypeBytes = 64;
  return LogSafe(type, kMaxTypeBytes);
}

}  // namespace

std::string FlatToolName(absl::string_view space, absl::string_view name) {
  return space.empty() ? std::string(name) : absl::StrCat(space, "__", name);
}

std::string HostedToolFault(absl::string_view type) {
  return absl::StrCat("'", ShownType(type),
                      "' is a hosted tool, which Baton does not run; send a function instead");
}

bool ToolTable::Add(ClientTool tool) {
  std::string flat = FlatToolName(tool.space, tool.name);
  const bool translates = tool.is_custom || !tool.space.empty();
  if (!tools_.emplace(std::move(flat), std::move(tool)).second) return false;
  translates_ = translates_ || translates;
  return true;
}

const ClientTool* ToolTable::Find(absl::string_view flat_name) const {
  const auto found = tools_.find(flat_name);
  return found == tools_.end() ? nullptr : &found->second;
}

void ToolTable::LeaveOutTool(HostedTool tool, const std::string& name) {
  LeaveOut(tool.type);
  if (!name.empty()) hosted_types_.emplace(name, tool.type);
  if (!first_hosted_.has_value()) first_hosted_ = std::move(tool);
}

void ToolTable::LeaveOut(absl::string_view type) {
  std::string shown = ShownType(type);
  if (left_out_.count(shown) > 0) return;
  if (left_out_.size() == kMaxTypes) {
    left_out_more_ = true;
  } else {
    left_out_.insert(std::move(shown));
  }
}

const std::string* ToolTable::HostedTypeOf(const std::string& name) const {
  const auto found = hosted_types_.find(name);
  return found == hosted_types_.end() ? nullptr : &found->second;
}

std::string ToolTable::Warning() const {
  if (left_out_.empty()) return "";
  return absl::StrCat("left out, since Baton runs no hosted tools: ",
                      absl::StrJoin(left_out_, ", "), left_out_more_ ? " and more" : "");
}

}  // namespace baton
