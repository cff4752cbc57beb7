// The tools of one request, as the client calls them and as the model does.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/string_view.h"

namespace baton {

// A tool as the client knows it.
struct ClientTool {
  std::string space{};     // the namespace that holds the tool; empty: none
  std::string name{};      // within the namespace
  bool is_custom = false;  // takes a text in place of JSON arguments
};

// Returns the name by which the model is shown a tool: NAMESPACE__NAME, or the name alone if
// `space` is empty. Names are never taken apart again, since both parts may contain "__".
std::string FlatToolName(absl::string_view space, absl::string_view name);

// Why a request cannot use a tool of this type, which the servers of an API's vendor run. All APIs
// give this reason.
std::string HostedToolFault(absl::string_view type);

// Filled while a request is read, then constant. Const methods are thread-safe.
class ToolTable {
 public:
  // Returns false, and adds nothing, if another tool has the same flat name.
  bool Add(ClientTool tool);
  // Returns the tool with this flat name, or null.
  const ClientTool* Find(absl::string_view flat_name) const;
  // Whether the client is to see calls otherwise than the model writes them.
  bool translates() const { return translates_; }

  // A hosted tool in the request's list of tools.
  struct HostedTool {
    std::string field{};  // field of the body, such as "tools[2].type"
    std::string type{};
  };
  // Leaves the tool out. `name` is empty if the API gives hosted tools no names.
  void LeaveOutTool(HostedTool tool, const std::string& name = "");
  // Leaves out something else of a hosted tool, such as an earlier call. `type` is its type.
  void LeaveOut(absl::string_view type);
  // Returns the first tool that was left out, if any.
  const std::optional<HostedTool>& first_hosted() const { return first_hosted_; }
  // Returns the type of the tool of this name that was left out, or null.
  const std::string* HostedTypeOf(const std::string& name) const;

  // Returns one line of at most 4 KiB of printable ASCII that names the types which were left out,
  // for the client and the log. Empty if nothing was.
  std::string Warning() const;

 private:
  std::map<std::string, ClientTool, std::less<>> tools_;  // by flat name
  bool translates_ = false;
  std::optional<HostedTool> first_hosted_;
  std::map<std::string, std::string> hosted_types_;  // by name
  std::set<std::string> left_out_;                   // types, of which a warning names some
  bool left_out_more_ = false;                       // than `left_out_` has
};

}  // namespace baton
