#include "client/serve/metrics_page.h"

#include <httplib.h>

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "common/base/address.h"
#include "common/base/clock.h"

namespace baton {
namespace {

constexpr absl::Duration kPartTimeout = absl::Milliseconds(500);
constexpr absl::Duration kPageTimeout = absl::Seconds(5);

struct Family {
  std::string first_part;  // the part whose comments stand for all parts
  std::string comments;    // the lines # HELP and # TYPE
  std::string samples;
};

// The metric families of all parts, in the order of their first lines.
class Page {
 public:
  void Add(absl::string_view part, absl::string_view text) {
    Family* family = nullptr;
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      if (absl::StartsWith(line, "# ")) {  // # HELP NAME ... or # TYPE NAME ...
        const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 3));
        if (words.size() < 3) continue;
        family = &FamilyOf(words[2], part);
        if (family->first_part == part) absl::StrAppend(&family->comments, line, "\n");
      } else if (family != nullptr) {
        absl::StrAppend(&family->samples, WithPart(line, part), "\n");
      }
    }
  }

  std::string Text() const {
    std::string text;
    for (const Family& family : families_) absl::StrAppend(&text, family.comments, family.samples);
    return text;
  }

 private:
  Family& FamilyOf(absl::string_view name, absl::string_view part) {
    const auto [position, is_new] = index_.try_emplace(std::string(name), families_.size());
    if (is_new) families_.emplace_back().first_part = std::string(part);
    return families_[position->second];
  }

  // A sample is NAME{LABELS} VALUE or NAME VALUE; a name has neither brace nor space.
  static std::string WithPart(absl::string_view sample, absl::string_view part) {
    const size_t end = std::min(sample.find_first_of("{ "), sample.size());
    const absl::string_view rest = sample.substr(end);
    const bool labelled = absl::StartsWith(rest, "{");
    return absl::StrCat(sample.substr(0, end), "{part=\"", part, "\"", labelled ? "," : "}",
                        labelled ? rest.substr(1) : rest);
  }

  std::vector<Family> families_;
  std::map<std::string, size_t> index_;  // family name -> place in families_
};

// Fetches a part's page of metrics; nullopt if the part does not answer within `timeout`.
std::optional<std::string> Scrape(const std::string& address, absl::Duration timeout) {
  const auto host_port = ParseHostPort(address);
  if (!host_port.ok() || timeout <= absl::ZeroDuration()) return std::nullopt;
  httplib::Client client(host_port->host, host_port->port);
  const auto wait = absl::ToChronoMilliseconds(timeout);
  client.set_connection_timeout(wait);
  client.set_read_timeout(wait);
  const httplib::Result answer = client.Get("/metrics");
  if (!answer || answer->status != 200) return std::nullopt;
  return answer->body;
}

}  // namespace

std::string MergeMetrics(const std::vector<PartMetrics>& parts) {
  Page page;
  for (const PartMetrics& part : parts) {
    page.Add(part.part, absl::StrCat("# HELP baton_part_up Whether the part gave its metrics.\n"
                                     "# TYPE baton_part_up gauge\nbaton_part_up ",
                                     part.text.has_value() ? 1 : 0));
  }
  for (const PartMetrics& part : parts) page.Add(part.part, part.text.value_or(""));
  return page.Text();
}

std::string ScrapeParts(const std::vector<MetricsSource>& sources) {
  const absl::Time deadline = SteadyNow() + kPageTimeout;
  std::vector<PartMetrics> parts;
  for (const MetricsSource& source : sources) {
    const absl::Duration left = deadline - SteadyNow();
    parts.push_back({source.part, Scrape(source.address, std::min(left, kPartTimeout))});
  }
  return MergeMetrics(parts);
}

}  // namespace baton
