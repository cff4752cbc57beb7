#include "bench/transfer/transfer_report.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include <nlohmann/json.hpp>

namespace baton {
namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

TransferFigure MedianOf(const std::vector<TransferSample>& samples) {
  std::vector<double> rates;
  std::vector<double> cpu;
  for (const TransferSample& sample : samples) {
    rates.push_back(sample.GigabytesPerSecond());
    cpu.push_back(sample.CpuSecondsPerGigabyte());
  }
  return {.gb_s = Median(std::move(rates)), .cpu_s_per_gb = Median(std::move(cpu))};
}

double CheckShare(const std::vector<TransferSample>& checked,
                  const std::vector<TransferSample>& unchecked) {
  std::vector<double> shares;
  for (size_t i = 0; i < checked.size(); ++i) {
    shares.push_back(1 - checked[i].GigabytesPerSecond() / unchecked[i].GigabytesPerSecond());
  }
  return Median(std::move(shares));
}

const TransferReport::Row& TransferReport::BestSocket() const {
  return *std::max_element(sweep.begin(), sweep.end(), [](const Row& a, const Row& b) {
    return a.socket.gb_s < b.socket.gb_s;
  });
}

std::string FormatJson(const TransferReport& report) {
  nlohmann::ordered_json json;
  if (report.device != "cpu") json["device"] = report.device;
  if (report.kv_wire_dtype != "auto") json["kv_wire_dtype"] = report.kv_wire_dtype;
  json["grpc_gb_s"] = report.push.gb_s;
  json["socket_gb_s"] = report.socket.gb_s;
  json["socket_best_gb_s"] = std::max(report.socket.gb_s, report.BestSocket().socket.gb_s);
  json["protobuf_bytes_gb_s"] = report.protobuf.gb_s;
  json["grpc_cpu_s_per_gb"] = report.push.cpu_s_per_gb;
  json["socket_cpu_s_per_gb"] = report.socket.cpu_s_per_gb;
  if (report.crc_share.has_value()) json["crc_share"] = *report.crc_share;
  json["sweep"] = nlohmann::ordered_json::array();
  for (const TransferReport::Row& row : report.sweep) {
    json["sweep"].push_back({{"bytes", row.bytes},
                             {"connections", row.connections},
                             {"grpc_gb_s", row.push.gb_s},
                             {"grpc_cpu_s_per_gb", row.push.cpu_s_per_gb},
                             {"socket_gb_s", row.socket.gb_s},
                             {"socket_cpu_s_per_gb", row.socket.cpu_s_per_gb}});
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string FormatTable(const TransferReport& report) {
  constexpr double kMebi = 1024.0 * 1024.0;
  std::string out = absl::StrFormat(
      "%.1f MiB of KV cache in the shape of %s, between two processes on loopback\n"
      "%s%s%s; medians\n\n",
      static_cast<double>(report.bytes) / kMebi, report.shape, report.cpu,
      report.device == "cpu" ? "" : ", pushes from and to the memory of " + report.device,
      report.kv_wire_dtype == "auto" ? "" : ", pushed as " + report.kv_wire_dtype);
  absl::StrAppendFormat(&out, "| %-38s | %7s | %13s | %8s |\n", "way", "GB/s", "of the socket",
                        "CPU s/GB");
  absl::StrAppendFormat(&out, "| %s | %s: | %s: | %s: |\n", std::string(38, '-'),
                        std::string(6, '-'), std::string(12, '-'), std::string(7, '-'));
  const auto line = [&](const std::string& way, const TransferFigure& figure) {
    absl::StrAppendFormat(&out, "| %-38s | %7.2f | %13.2f | %8.3f |\n", way, figure.gb_s,
                          figure.gb_s / report.socket.gb_s, figure.cpu_s_per_gb);
  };
  line("push, checked", report.push);
  line("protobuf bytes field", report.protobuf);
  line("socket, calls of 1 MiB", report.socket);
  for (const TransferReport::Row& row : report.sweep) {
    const double mebibytes = static_cast<double>(row.bytes) / kMebi;
    if (row.connections == report.sweep.front().connections) {
      line(absl::StrFormat("socket, calls of %.4g MiB", mebibytes), row.socket);
    }
    line(absl::StrFormat("push, %.4g MiB messages, %d connection%s", mebibytes, row.connections,
                         row.connections == 1 ? "" : "s"),
         row.push);
  }
  if (report.crc_share.has_value()) {
    absl::StrAppendFormat(&out, "\nCRC and digest take %.1f %% of the rate.\n",
                          100 * *report.crc_share);
  }
  return out;
}

}  // namespace baton
