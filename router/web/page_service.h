// The router's page in a browser: its files, what it reads, and who may look (docs/page.md).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "router/front/door.h"
#include "router/http/message.h"
#include "router/page/event_log.h"
#include "router/page/fleet_history.h"
#include "router/page/fleet_report.h"
#include "router/page/page_files.h"
#include "router/page/page_json.h"
#include "router/page/request_history.h"

namespace baton {

// Thread-safe. Borrows all of Parts.
class PageService {
 public:
  struct Parts {
    absl::Span<const PageFile> files;
    Door& door;
    const FleetBoard& board;
    const EventLog& events;
    const RequestHistory& history;
    const FleetHistory& fleet_history;
    std::function<RouterReport()> router;
  };
  explicit PageService(Parts parts) : parts_(std::move(parts)) {}

  // For the page and for /metrics: none if the caller may look: who calls from this machine, and
  // who shows an operator's key or certificate. Else the refusal, which asks a browser for a key
  // where one may help.
  std::optional<HttpResponse> Check(const HttpRequest& head, const std::string& request_id) const;
  // Returns why workers are not used: the reasons of some and the number of the others. Empty if
  // all are used, or if the caller may not look.
  std::string WhyNotReady(const HttpRequest& head) const;
  // The file or the JSON at the path; the whole answer. REQUIRES: Check has let it through.
  HttpResponse Answer(const HttpRequest& head, const std::string& request_id) const;

 private:
  absl::Status MayLook(const HttpRequest& head) const;
  // Empty if nothing is at the path.
  std::optional<std::string> JsonAt(absl::string_view path) const;

  const Parts parts_;
};

}  // namespace baton
