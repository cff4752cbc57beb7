// The transfer through a bare TCP socket.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "bench/transfer/transfer_bench.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

absl::Status SocketError(const char* what) {
  return absl::InternalError(absl::StrCat("socket: ", what, ": ", std::strerror(errno)));
}

absl::Status WriteAll(int fd, const uint8_t* data, size_t bytes, size_t call_bytes) {
  while (bytes > 0) {
    const ssize_t count = write(fd, data, std::min(bytes, call_bytes));
    if (count <= 0) return SocketError("write");
    data += count;
    bytes -= static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

absl::Status ReadAll(int fd, uint8_t* data, size_t bytes, size_t call_bytes) {
  while (bytes > 0) {
    const ssize_t count = read(fd, data, std::min(bytes, call_bytes));
    if (count <= 0) return SocketError("read");
    data += count;
    bytes -= static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// For every region the sender first sends the number of bytes of a call. One byte answers when the
// whole region has arrived.
absl::Status ReceiveBytes(const TransferCase& transfer, const ReadyFunction& ready) {
  BATON_ASSIGN_OR_RETURN(const TransferCache cache, TransferCache::Create(transfer));
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener, 1) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return SocketError("listen");
  }
  ready(absl::StrCat(ntohs(address.sin_port)));
  const int fd = accept(listener, nullptr, nullptr);
  if (fd < 0) return SocketError("accept");
  while (true) {
    uint64_t call_bytes = 0;
    BATON_RETURN_IF_ERROR(
        ReadAll(fd, reinterpret_cast<uint8_t*>(&call_bytes), sizeof(call_bytes), 8));
    BATON_RETURN_IF_ERROR(ReadAll(fd, cache.data(), transfer.bytes(), call_bytes));
    const uint8_t done = 1;
    BATON_RETURN_IF_ERROR(WriteAll(fd, &done, 1, 1));
  }
}

absl::StatusOr<std::vector<TransferSample>> SendBytes(const TransferCase& transfer,
                                                      const std::vector<size_t>& call_bytes,
                                                      const std::string& address, pid_t receiver) {
  BATON_ASSIGN_OR_RETURN(TransferCache cache, TransferCache::Create(transfer));
  cache.Fill();
  uint32_t port = 0;
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (!absl::SimpleAtoi(address, &port) || fd < 0) return SocketError("open");
  sockaddr_in to = Loopback(static_cast<uint16_t>(port));
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) return SocketError("connect");
  const auto move = [&](uint64_t bytes_a_call) -> absl::StatusOr<TransferSample> {
    const TransferMeter meter(receiver);
    BATON_RETURN_IF_ERROR(
        WriteAll(fd, reinterpret_cast<const uint8_t*>(&bytes_a_call), sizeof(bytes_a_call), 8));
    BATON_RETURN_IF_ERROR(WriteAll(fd, cache.data(), transfer.bytes(), bytes_a_call));
    uint8_t done = 0;
    BATON_RETURN_IF_ERROR(ReadAll(fd, &done, 1, 1));
    return meter.Stop(transfer.bytes());
  };
  BATON_RETURN_IF_ERROR(move(call_bytes.front()).status());
  std::vector<TransferSample> samples;
  for (const size_t bytes_a_call : call_bytes) {
    BATON_ASSIGN_OR_RETURN(const TransferSample sample, move(bytes_a_call));
    samples.push_back(sample);
  }
  return samples;
}

}  // namespace

absl::StatusOr<std::vector<TransferSample>> MeasureSocket(const TransferCase& transfer,
                                                          const std::vector<size_t>& call_bytes) {
  return RunForkedPair([&](const ReadyFunction& ready) { return ReceiveBytes(transfer, ready); },
                       [&](const std::string& address, pid_t receiver) {
                         return SendBytes(transfer, call_bytes, address, receiver);
                       },
                       kTransferTimeout);
}

}  // namespace baton
