// A client that speaks HTTP/2 frame by frame, for what gRPC's own never does: it reads nothing,
// says half, or gives no time.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <set>
#include <string>

namespace baton {

// One connection. The server may send on a stream only what Grant allowed.
class RawClient {
 public:
  explicit RawClient(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    const int on = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    SendFrame(kSettings, 0, 0, std::string("\0\x04", 2) + Uint32(0));  // INITIAL_WINDOW_SIZE 0
  }
  ~RawClient() { close(socket_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // The headers of a call of GenerationService; the stream's number.
  uint32_t Open(const std::string& grpc_timeout = "", const std::string& method = "Generate") {
    const uint32_t stream = next_stream_;
    next_stream_ += 2;
    std::string block = Header(":method", "POST") + Header(":scheme", "http") +
                        Header(":path", "/baton.v1.GenerationService/" + method) +
                        Header(":authority", "localhost") +
                        Header("content-type", "application/grpc") + Header("te", "trailers");
    if (!grpc_timeout.empty()) block += Header("grpc-timeout", grpc_timeout);
    SendFrame(kHeaders, kEndHeaders, stream, block);
    return stream;
  }
  // `message` of the call, whole or only `bytes` of it and of the 5 before it.
  void SendMessage(uint32_t stream, const std::string& message, size_t bytes = SIZE_MAX,
                   size_t from = 0) {
    const std::string framed =
        std::string(1, '\0') + Uint32(static_cast<uint32_t>(message.size())) + message;
    const bool last = bytes >= framed.size() - from;
    SendFrame(kData, last ? kEndStream : 0, stream, framed.substr(from, bytes));
  }
  void Grant(uint32_t stream, uint32_t bytes) {
    SendFrame(kWindowUpdate, 0, 0, Uint32(bytes));
    SendFrame(kWindowUpdate, 0, stream, Uint32(bytes));
  }

  // Reads what is there, waiting at most so long for it.
  void Read(int timeout_ms) {
    pollfd readable{.fd = socket_, .events = POLLIN, .revents = 0};
    char bytes[16384];
    while (poll(&readable, 1, timeout_ms) > 0) {
      const ssize_t count = recv(socket_, bytes, sizeof(bytes), 0);
      if (count <= 0) return;
      received_.append(bytes, static_cast<size_t>(count));
      timeout_ms = 0;
    }
    while (TakeFrame()) continue;
  }
  // Streams that the server has ended, with a status or by a reset.
  const std::set<uint32_t>& ended() const { return ended_; }

 private:
  enum Type : uint8_t {
    kData = 0,
    kHeaders = 1,
    kReset = 3,
    kSettings = 4,
    kPing = 6,
    kWindowUpdate = 8
  };
  static constexpr uint8_t kEndStream = 1, kAck = 1, kEndHeaders = 4;
  static constexpr size_t kFrameHeader = 9;

  static std::string Uint32(uint32_t value) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
    return bytes;
  }
  // A literal that no table remembers. Shorter than 127 bytes each.
  static std::string Header(const std::string& name, const std::string& value) {
    return std::string(1, '\0') + static_cast<char>(name.size()) + name +
           static_cast<char>(value.size()) + value;
  }
  void SendFrame(Type type, uint8_t flags, uint32_t stream, const std::string& payload) {
    Send(Uint32(static_cast<uint32_t>(payload.size())).substr(1) + static_cast<char>(type) +
         static_cast<char>(flags) + Uint32(stream) + payload);
  }
  void Send(const std::string& bytes) {
    EXPECT_EQ(send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  bool TakeFrame() {
    if (received_.size() < kFrameHeader) return false;
    const auto byte = [this](size_t i) { return static_cast<uint8_t>(received_[i]); };
    const size_t size = static_cast<size_t>(byte(0)) << 16 | static_cast<size_t>(byte(1)) << 8 |
                        static_cast<size_t>(byte(2));
    if (received_.size() < kFrameHeader + size) return false;
    const uint8_t type = byte(3), flags = byte(4);
    const uint32_t stream = static_cast<uint32_t>(byte(5)) << 24 |
                            static_cast<uint32_t>(byte(6)) << 16 |
                            static_cast<uint32_t>(byte(7)) << 8 | byte(8);
    const std::string payload = received_.substr(kFrameHeader, size);
    received_.erase(0, kFrameHeader + size);
    if (type == kSettings && (flags & kAck) == 0) SendFrame(kSettings, kAck, 0, "");
    if (type == kPing && (flags & kAck) == 0) SendFrame(kPing, kAck, 0, payload);
    const bool last = (type == kData || type == kHeaders) && (flags & kEndStream) != 0;
    if (last || type == kReset) ended_.insert(stream);
    return true;
  }

  const int socket_;
  uint32_t next_stream_ = 1;
  std::string received_;
  std::set<uint32_t> ended_;
};

}  // namespace baton
