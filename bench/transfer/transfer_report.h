// The results of `baton bench transfer`, as JSON and as a table.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/transfer/forked_pair.h"

namespace baton {

struct TransferFigure {
  double gb_s = 0;          // 10^9 bytes a second
  double cpu_s_per_gb = 0;  // of both processes
};

// Median rate and median CPU time, each for itself. REQUIRES: samples.
TransferFigure MedianOf(const std::vector<TransferSample>& samples);
// The part of the rate that the checks take: the median over pairs of samples that were taken one
// after the other. REQUIRES: as many unchecked as checked ones, at least one.
double CheckShare(const std::vector<TransferSample>& checked,
                  const std::vector<TransferSample>& unchecked);

struct TransferReport {
  struct Row {
    size_t bytes = 0;     // of a message's payload, or of a call of the socket
    int connections = 1;  // of the push; the socket has one
    TransferFigure push;
    TransferFigure socket;
  };
  std::string cpu;
  std::string device = "cpu";  // whose memory has the caches of the pushes
  std::string shape;
  size_t bytes = 0;                 // of the cache that was moved
  TransferFigure push;              // messages of the prefill worker's own choice
  TransferFigure socket;            // calls of 1 MiB
  TransferFigure protobuf;          // fields of 1 MiB
  std::optional<double> crc_share;  // the part of the rate that CRC and digest take; not measured
                                    // without baton-bench-unchecked
  std::vector<Row> sweep;           // not empty

  // The sweep's row with the fastest calls of the socket.
  const Row& BestSocket() const;
};

// {"device", "grpc_gb_s", "socket_gb_s", "socket_best_gb_s", "protobuf_bytes_gb_s",
// "grpc_cpu_s_per_gb", "socket_cpu_s_per_gb", "crc_share" if it was measured, "sweep": [{"bytes", "connections",
// "grpc_gb_s", "grpc_cpu_s_per_gb", "socket_gb_s", "socket_cpu_s_per_gb"}]}, on several lines.
std::string FormatJson(const TransferReport& report);
std::string FormatTable(const TransferReport& report);

}  // namespace baton
