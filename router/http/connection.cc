#include "router/http/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

#include "boost/asio/post.hpp"
#include "common/base/clock.h"
#include "router/access_log/access_entry.h"
#include "router/http/answer_text.h"
#include "router/http/cors.h"
#include "router/http/served_exchange.h"

namespace baton {
namespace {

using WaitType = boost::asio::posix::descriptor_base;

// What a client may send ahead while it is answered. Beyond it nothing is read, and a client that
// ends its direction is noticed only when it is written to.
constexpr size_t kReadAheadBytes = size_t{16} << 10;

// What the system may hold of an answer beyond what the client has room for. A client that does not
// read is then behind after some kilobytes, where the system would take megabytes.
constexpr int kUnsentBytes = 16 << 10;

void BoundUnsent(int descriptor) {
  // Has no effect on sockets that are not TCP's.
  setsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof(kUnsentBytes));
}

// A closed socket then shows the other side that the bytes are incomplete.
void ResetAtClose(int descriptor) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

bool WasReset(int descriptor) {
  pollfd polled{.fd = descriptor, .events = 0, .revents = 0};
  return poll(&polled, 1, 0) > 0 && (polled.revents & (POLLERR | POLLHUP)) != 0;
}

// HTTP has none, and a watch for errors would end with it again and again.
void DropUrgentByte(int descriptor) {
  char byte = 0;
  recv(descriptor, &byte, 1, MSG_OOB | MSG_DONTWAIT);
}

}  // namespace

Connection::Connection(int descriptor, std::string address, SslSession session,
                       const Surroundings& surroundings)
    : surroundings_(surroundings),
      draining_(surroundings.draining),
      unread_(surroundings.unread_bytes) {
  client_.address = std::move(address);
  client_.encrypted = session != nullptr;
  descriptor_.emplace(surroundings_.io);
  boost::system::error_code error;
  descriptor_->assign(descriptor, error);
  if (error) {
    close(descriptor);
  } else {
    BoundUnsent(descriptor);
  }
  timer_.emplace(surroundings_.io);
  stream_.emplace(descriptor, std::move(session));
}

void Connection::Start() {
  if (!descriptor_->is_open()) return Close();  // the system had no room for it
  if (client_.encrypted) {
    SetDeadline(surroundings_.options.handshake_timeout);
    return GoOnWithHandshake();
  }
  AwaitRequest(surroundings_.options.header_timeout);
}

void Connection::Drain() {
  draining_ = true;
  if (phase_ == Phase::kHandshake || (phase_ == Phase::kIdle && input_.empty())) Close();
}

void Connection::Close() {
  if (phase_ == Phase::kClosed) return;
  const std::shared_ptr<Connection> self = shared_from_this();
  exchange_gone_ = InExchange() || phase_ == Phase::kEnding;
  // What was cut must not look whole to HTTP/1.0.
  if (exchange_gone_) ResetAtClose(descriptor_->native_handle());
  EndUnfinished();
  EndEntry(/*whole=*/false);
  phase_ = Phase::kClosed;
  closed_.store(true);
  parser_.reset();
  room_ = nullptr;
  more_ = nullptr;
  unread_.GiveBack();
  Free(input_);
  stream_.reset();
  timer_.reset();
  pause_.reset();
  descriptor_.reset();
  surroundings_.closed(*this);
  const std::function<void()> gone = std::exchange(gone_, nullptr);
  if (gone) gone();
  output_.Fail();
}

void Connection::WatchInput() {
  if (phase_ == Phase::kClosed || watches_input_ || input_ended_) return;
  if ((InExchange() || phase_ == Phase::kEnding) && input_.size() >= kReadAheadBytes) {
    return WatchErrors();
  }
  watches_input_ = true;
  const auto on_input = [self = shared_from_this()](const boost::system::error_code& error) {
    self->watches_input_ = false;
    if (!error) self->OnInput();
  };
  if (const absl::Duration pause = PauseOfInput(); pause > absl::ZeroDuration()) {
    pause_.emplace(surroundings_.io, absl::ToChronoNanoseconds(pause));
    pause_->async_wait(on_input);
  } else if (stream_->has_pending()) {
    boost::asio::post(surroundings_.io, [on_input] { on_input({}); });
  } else {
    descriptor_->async_wait(WaitType::wait_read, on_input);
  }
}

void Connection::OnInput() {
  if (phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kHandshake) return GoOnWithHandshake();
  Read();
}

void Connection::GoOnWithHandshake() {
  const ByteStream::Result result = stream_->Handshake();
  if (result.outcome == ByteStream::Outcome::kWantsToRead) return WatchInput();
  if (result.outcome == ByteStream::Outcome::kWantsToWrite) return WatchOutput();
  if (result.outcome != ByteStream::Outcome::kDone) return Close();
  absl::StatusOr<std::optional<Peer>> peer =
      surroundings_.identify(*stream_->session(), client_.address);
  if (!peer.ok()) return Close();
  client_.certificate = *std::move(peer);
  AwaitRequest(surroundings_.options.header_timeout);
}

size_t Connection::ReadableBytes() const {
  const bool ahead = InExchange() || phase_ == Phase::kEnding;
  if (ahead) return kReadAheadBytes - std::min(kReadAheadBytes, input_.size());
  if (phase_ == Phase::kLingering) return surroundings_.scratch.size();
  // Bytes that follow the request stay in memory until it is answered, so there must be few.
  return std::max<size_t>(kReadAheadBytes, parser_->awaited_bytes());
}

absl::Duration Connection::PauseOfInput() const {
  if (request_bytes_ <= surroundings_.options.long_input_bytes) return absl::ZeroDuration();
  return surroundings_.long_input.Until(0, SteadyNow());
}

void Connection::Read() {
  const bool ahead = InExchange() || phase_ == Phase::kEnding;
  std::string& scratch = surroundings_.scratch;
  const size_t readable = std::min(ReadableBytes(), scratch.size());
  if (readable == 0) return WatchInput();
  const ByteStream::Result result = stream_->Read(scratch.data(), readable);
  if (result.outcome == ByteStream::Outcome::kBroken) return Close();
  if (result.outcome == ByteStream::Outcome::kEnd) return OnInputEnd();
  request_bytes_ += result.bytes;
  if (request_bytes_ > surroundings_.options.long_input_bytes) {
    surroundings_.long_input.Take(static_cast<double>(result.bytes), SteadyNow());
  }
  if (result.outcome == ByteStream::Outcome::kDone && phase_ != Phase::kLingering) {
    input_.append(scratch, 0, result.bytes);
    if (!ahead) return Advance();
  }
  WatchInput();
}

void Connection::OnInputEnd() {
  input_ended_ = true;
  if (phase_ == Phase::kLingering) return Close();
  if (!InExchange() && phase_ != Phase::kEnding) return Advance();
  WatchErrors();
  if (phase_ == Phase::kWaiting && framing_.http_1_1) Write(std::string(kContinue), nullptr);
  if (phase_ == Phase::kEvents && output_.empty()) Send(exchange_, std::string(kPing), nullptr);
}

void Connection::WatchErrors() {
  if (watches_errors_) return;
  watches_errors_ = true;
  descriptor_->async_wait(WaitType::wait_error,
                          [self = shared_from_this()](const boost::system::error_code& error) {
                            if (error || self->phase_ == Phase::kClosed) return;
                            self->watches_errors_ = false;
                            if (WasReset(self->descriptor_->native_handle())) return self->Close();
                            DropUrgentByte(self->descriptor_->native_handle());
                            self->WatchErrors();
                          });
}

void Connection::Advance() {
  while (phase_ == Phase::kIdle || phase_ == Phase::kHead || phase_ == Phase::kBody) {
    switch (parser_->Parse(input_)) {
      case RequestParser::Found::kError:
        return Refuse(parser_->refusal().status, parser_->refusal().message);
      case RequestParser::Found::kHead:
        if (!TakeHead()) return;
        break;
      case RequestParser::Found::kRequest:
        CountBody();
        if (phase_ == Phase::kBody) TakeRequest();
        break;
      case RequestParser::Found::kNothingYet:
        if (input_ended_) return Close();
        if (input_.empty()) Free(input_);  // the rest may come late
        if (phase_ == Phase::kBody) CountBody();
        if (phase_ == Phase::kWaiting) break;
        if (phase_ == Phase::kIdle && parser_->begun()) {
          phase_ = Phase::kHead;
          SetDeadline(surroundings_.options.header_timeout);
        }
        if (phase_ == Phase::kBody && framing_.expects_continue && input_.empty()) {
          Write(std::string(kContinue), nullptr);
        }
        framing_.expects_continue = false;  // it has begun to send, or was asked to
        return WatchInput();
    }
  }
  WatchInput();
}

bool Connection::TakeHead() {
  HttpRequest& request = parser_->request();
  framing_ = parser_->framing();
  is_head_ = request.method == "HEAD";
  path_ = request.path;
  head_at_ = SteadyNow();
  BeginEntry(request);
  request.client = client_;
  phase_ = Phase::kBody;
  step_end_bytes_ = surroundings_.options.body_step_bytes;
  counted_bytes_ = 0;
  SetDeadline(surroundings_.options.body_timeout);
  std::optional<HttpResponse> answer = AnswerPreflight(OriginsOf(request), request);
  if (!answer.has_value() && client_.encrypted &&
      !surroundings_.identify(*stream_->session(), client_.address).ok()) {
    Refuse(401, "the certificate of this connection does not count any more; connect with another");
    return false;
  }
  if (!answer.has_value()) answer = surroundings_.handler.check(request);
  if (!answer.has_value()) {
    if (framing_.has_body) BeginBody();
    return true;
  }
  // What is left of the request would have to be read before another one.
  if (framing_.has_body) framing_.keep_alive = false;
  common_headers_ = CorsHeaders(OriginsOf(request), request);
  WriteAnswer(*std::move(answer));
  return false;
}

void Connection::BeginBody() {
  if (surroundings_.handler.room == nullptr) return;
  std::optional<BodyRoom> room = surroundings_.handler.room(parser_->request());
  if (!room.has_value()) return parser_->DropBody();
  room_ = *std::move(room);
  MakeRoom(parser_->request().MemoryBytes());
}

void Connection::CountBody() {
  if (parser_->body_bytes() >= step_end_bytes_) {
    step_end_bytes_ = parser_->body_bytes() + surroundings_.options.body_step_bytes;
    SetDeadline(surroundings_.options.body_timeout);
  }
  const uint64_t bytes = parser_->body().size();
  MakeRoom(bytes - std::exchange(counted_bytes_, bytes));
}

void Connection::MakeRoom(size_t bytes) {
  if (bytes == 0 || room_ == nullptr) return;
  const absl::Status status = room_(bytes);
  if (!status.ok()) TakeRequest(status);
}

void Connection::TakeRequest(const absl::Status& status) {
  phase_ = Phase::kWaiting;
  BeginUnfinished();
  ForgetDeadline();
  HttpRequest request = std::move(parser_->request());
  HttpBody body{.room = std::exchange(room_, nullptr), .status = status};
  if (status.ok()) {
    body.bytes = std::move(parser_->body());
  } else {  // the rest of the body would be taken for a request
    body.room = nullptr;
    Free(input_);
    framing_.keep_alive = false;
  }
  parser_.reset();
  common_headers_ = CorsHeaders(OriginsOf(request), request);
  input_.shrink_to_fit();
  surroundings_.handler.handle(
      std::make_shared<ServedExchange>(shared_from_this(), surroundings_.mailbox, exchange_,
                                       std::move(request)),
      std::move(body));
}

const std::vector<std::string>& Connection::OriginsOf(const HttpRequest& request) const {
  static const std::vector<std::string> none;
  const auto& shares = surroundings_.handler.shares;
  return shares == nullptr || shares(request.path) ? surroundings_.options.cors_origins : none;
}

void Connection::Refuse(int status, const std::string& message) {
  HttpRequest& request = parser_->request();
  framing_ = parser_->framing();
  framing_.keep_alive = false;
  is_head_ = request.method == "HEAD";
  path_ = request.path;
  BeginEntry(request);
  common_headers_ = CorsHeaders(OriginsOf(request), request);
  WriteAnswer(surroundings_.handler.error_answer(request, status, message));
}

void Connection::BeginEntry(HttpRequest& request) {
  const auto& make = surroundings_.handler.entry;
  if (access_ == nullptr && make != nullptr) access_ = make(request.path);
  request.access = access_;
}

void Connection::EndEntry(bool whole) {
  const std::shared_ptr<AccessEntry> access = std::exchange(access_, nullptr);
  if (access == nullptr) return;
  if (!whole) access->Failed(absl::CancelledError("the client has not taken the whole answer"));
  access->Ended(SteadyNow());
}

void Connection::SetDeadline(absl::Duration timeout) {
  deadline_ = SteadyNow() + timeout;
  ArmTimer();
}

void Connection::ArmTimer() {
  const bool pings = phase_ == Phase::kEvents && output_.empty();
  const absl::Time due = pings ? std::min(deadline_, next_ping_) : deadline_;
  if (phase_ == Phase::kClosed || timer_due_ <= due) return;
  timer_due_ = due;
  timer_->expires_at(std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          absl::ToChronoNanoseconds(due - absl::UnixEpoch()))));
  timer_->async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || self->phase_ == Phase::kClosed) return;
    self->timer_due_ = absl::InfiniteFuture();
    self->OnTime();
  });
}

void Connection::OnTime() {
  const absl::Time now = SteadyNow();
  if (now >= deadline_) {
    OnDeadline();
  } else if (phase_ == Phase::kEvents && output_.empty() && now >= next_ping_) {
    next_ping_ = now + surroundings_.options.ping_interval;
    Send(exchange_, std::string(kPing), nullptr);
  }
  ArmTimer();
}

void Connection::OnDeadline() {
  ForgetDeadline();
  switch (phase_) {
    case Phase::kHead:
      return Refuse(408, absl::StrCat("the headers did not come within ",
                                      absl::FormatDuration(surroundings_.options.header_timeout)));
    case Phase::kBody:
      return Refuse(408,
                    absl::StrCat("neither the body nor ", surroundings_.options.body_step_bytes,
                                 " bytes of it came within ",
                                 absl::FormatDuration(surroundings_.options.body_timeout)));
    default:
      // Nothing was asked, or the client takes nothing.
      return Close();
  }
}

}  // namespace baton
