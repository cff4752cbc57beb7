// The results of `baton bench transfer`, as JSON and as a table.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/transfer/forked_pair.h"

namespace baton {

struct TransferFigure {
  double gb_s = 0;          // 10^9 bytes/s
  double cpu_s_per_gb = 0;  // CPU seconds of both processes for 10^9 bytes
};

// The median rate and the median CPU time, each on its own. REQUIRES: at least one sample.
TransferFigure MedianOf(const std::vector<TransferSample>& samples);
// The share of the rate that the checks take: the median over pairs of samples that were taken one
// after the other. REQUIRES: as many unchecked as checked samples, at least one.
double CheckShare(const std::vector<TransferSample>& checked,
                  const std::vector<TransferSample>& unchecked);

struct TransferReport {
  struct Row {
    size_t bytes = 0;     // payload that the push's messages aim at, and bytes of a socket's call
    int connections = 1;  // connections of the push; the socket always has one
    TransferFigure push;
    TransferFigure socket;
  };
  std::string cpu;
  std::string device = "cpu";  // cpu, cuda or cuda:N: memory of the KV caches of the pushes
  std::string shape;
  std::string kv_wire_dtype = "auto";  // type of the pushes' payload; auto: that of the caches
  size_t bytes = 0;                    // bytes of the KV cache that was moved
  TransferFigure push;                 // a push whose sender chooses the size of messages
  TransferFigure socket;               // a socket with calls of 1 MiB
  TransferFigure protobuf;             // messages with fields of 1 MiB
  // Share of the push's rate that CRCs and digests take. Unknown without baton-bench-unchecked.
  std::optional<double> crc_share;
  std::vector<Row> sweep;  // not empty

  // The row of the sweep with the fastest socket.
  const Row& BestSocket() const;
};

// One JSON object on several lines:
// - "device", unless it is "cpu", and "kv_wire_dtype", unless it is "auto";
// - "grpc_gb_s", "socket_gb_s", "socket_best_gb_s", "protobuf_bytes_gb_s";
// - "grpc_cpu_s_per_gb", "socket_cpu_s_per_gb", and "crc_share" if it is known;
// - "sweep": a list of {"bytes", "connections", "grpc_gb_s", "grpc_cpu_s_per_gb", "socket_gb_s",
//   "socket_cpu_s_per_gb"}.
std::string FormatJson(const TransferReport& report);
std::string FormatTable(const TransferReport& report);

}  // namespace baton
