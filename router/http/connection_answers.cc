// The answers of a connection.
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/time/clock.h"

#include "boost/asio/post.hpp"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "router/access_log/access_entry.h"
#include "router/http/answer_text.h"
#include "router/http/connection.h"

namespace baton {
namespace {

// Answers and events up to this size are written whatever else is unread: the number of connections
// bounds them.
constexpr size_t kShortBytes = size_t{64} << 10;

constexpr char kTooMuchUnread[] =
    "the answers that this tenant or all clients leave unread take too much memory; read them, or "
    "try again later";

// The memory of the bytes, of which shared parts take it once.
size_t MemoryOf(const absl::Cord& bytes) {
  if (bytes.size() <= kShortBytes) return bytes.size();
  absl::flat_hash_set<const void*> seen;
  size_t memory = 0;
  for (const absl::string_view part : bytes.Chunks()) {
    if (seen.insert(part.data()).second) memory += part.size();
  }
  return memory;
}

}  // namespace

void Connection::OnGone(uint64_t exchange, std::function<void()> gone) {
  if (exchange != exchange_) return;
  if (phase_ == Phase::kClosed) {
    if (exchange_gone_) gone();
  } else {
    gone_ = std::move(gone);
  }
}

void Connection::CountFor(uint64_t exchange, const std::string& tenant) {
  if (exchange == exchange_ && phase_ == Phase::kWaiting) unread_.SetTenant(tenant);
}

void Connection::Respond(uint64_t exchange, HttpResponse response) {
  if (exchange != exchange_ || phase_ == Phase::kClosed) return;
  BATON_CHECK(phase_ == Phase::kWaiting, "an exchange has one answer");
  WriteAnswer(std::move(response));
}

void Connection::BeginEvents(uint64_t exchange, const std::vector<HttpHeader>& headers) {
  if (exchange != exchange_ || phase_ == Phase::kClosed) return;
  BATON_CHECK(phase_ == Phase::kWaiting, "an exchange has one answer");
  std::vector<HttpHeader> all = {{"Content-Type", "text/event-stream"},
                                 {"Cache-Control", "no-cache"},
                                 {"X-Accel-Buffering", "no"}};  // nginx passes each event on
  all.insert(all.end(), headers.begin(), headers.end());
  keep_alive_ = framing_.keep_alive && framing_.http_1_1 && !draining_;
  phase_ = Phase::kEvents;
  is_event_stream_ = true;
  ++surroundings_.event_streams;
  CountAnswer(200);
  Write(HeadText(200, std::move(all), std::nullopt), nullptr);
}

void Connection::Send(uint64_t exchange, std::string bytes, OutputQueue::Written written) {
  const size_t memory_bytes = bytes.size();
  SendEvents(exchange, std::move(bytes), memory_bytes, std::move(written));
}

void Connection::SendLong(uint64_t exchange, absl::Cord bytes, OutputQueue::Written written) {
  const size_t memory_bytes = MemoryOf(bytes);
  SendEvents(exchange, std::move(bytes), memory_bytes, std::move(written));
}

template <typename Bytes>
void Connection::SendEvents(uint64_t exchange, Bytes bytes, size_t memory_bytes,
                            OutputQueue::Written written) {
  if (exchange != exchange_ || phase_ == Phase::kClosed) {
    if (written) written(false);
    return;
  }
  BATON_CHECK(phase_ == Phase::kEvents, "events are sent between BeginEvents and EndEvents");
  if (!CountUnread(memory_bytes)) {
    Break(exchange);
    if (written) written(false);
    return;
  }
  const bool was_empty = output_.empty();
  AppendPart(is_head_ ? Bytes() : std::move(bytes), std::move(written));
  if (was_empty || !watches_output_) Flush();
}

void Connection::EndEvents(uint64_t exchange) {
  if (exchange != exchange_ || phase_ == Phase::kClosed) return;
  BATON_CHECK(phase_ == Phase::kEvents, "an exchange has one end");
  phase_ = Phase::kEnding;
  Write(framing_.http_1_1 && !is_head_ ? std::string(kLastChunk) : "", nullptr);
}

void Connection::Break(uint64_t exchange) {
  if (!IsOpen(exchange)) return;
  breaks_ = true;
  phase_ = Phase::kEnding;
  if (output_.empty()) return FinishAnswer();
  // Who does not read would hold the rest, and what is sent meanwhile, for as long as it likes.
  gone_ = nullptr;
  Close();
}

void Connection::Abandon(uint64_t exchange, const HttpRequest& request) {
  if (!IsOpen(exchange)) return;
  if (phase_ == Phase::kEvents) return Break(exchange);
  WriteAnswer(surroundings_.handler.error_answer(request, 500, "the server has lost this request"));
}

void Connection::WriteAnswer(HttpResponse response) {
  if (!CountUnread(response.body.size() + MemoryOf(response.rest) + response.more_bytes)) {
    response =
        surroundings_.handler.error_answer({.method = "", .path = path_}, 503, kTooMuchUnread);
  }
  if (parser_ != nullptr) parser_->DropBody();  // the request was answered before its end
  room_ = nullptr;
  const bool was_empty = output_.empty();
  const bool whole = response.more == nullptr;
  keep_alive_ = framing_.keep_alive && !draining_ && (whole || framing_.http_1_1);
  phase_ = Phase::kEnding;
  BeginUnfinished();
  ForgetDeadline();
  CountAnswer(response.status);
  const std::optional<size_t> length =
      whole ? std::optional<size_t>(response.body.size() + response.rest.size()) : std::nullopt;
  output_.Append(HeadText(response.status, std::move(response.headers), length), nullptr);
  if (!is_head_) {
    more_ = std::move(response.more);
    if (whole) {
      output_.Append(std::move(response.body), nullptr);
      output_.Append(std::move(response.rest), nullptr);
    } else {
      AppendPart(std::move(response.body), nullptr);
      AppendPart(std::move(response.rest), nullptr);
    }
  }
  if (was_empty || !watches_output_) Flush();
}

bool Connection::CountUnread(size_t bytes) { return bytes <= kShortBytes || unread_.Take(bytes); }

void Connection::AppendMore() {
  std::string piece = more_();
  if (!piece.empty()) return AppendPart(std::move(piece), nullptr);
  more_ = nullptr;
  if (framing_.http_1_1) output_.Append(std::string(kLastChunk), nullptr);
}

template <typename Bytes>
void Connection::AppendPart(Bytes bytes, OutputQueue::Written written) {
  if (!framing_.http_1_1 || bytes.empty()) {
    return output_.Append(std::move(bytes), std::move(written));
  }
  output_.Append(ChunkHead(bytes.size()), nullptr);
  output_.Append(std::move(bytes), nullptr);
  output_.Append("\r\n", std::move(written));
}

void Connection::CountAnswer(int status) const {
  if (access_ != nullptr) access_->Answered(status);
  if (surroundings_.handler.answered == nullptr) return;
  std::optional<absl::Duration> since_head;
  if (head_at_.has_value()) since_head = SteadyNow() - *head_at_;
  surroundings_.handler.answered(path_, status, since_head);
}

void Connection::BeginUnfinished() {
  if (!std::exchange(is_unfinished_, true)) ++surroundings_.unfinished_answers;
}

void Connection::EndUnfinished() {
  if (std::exchange(is_unfinished_, false)) --surroundings_.unfinished_answers;
  if (std::exchange(is_event_stream_, false)) --surroundings_.event_streams;
}

std::string Connection::HeadText(int status, std::vector<HttpHeader> headers,
                                 std::optional<size_t> content_length) const {
  headers.insert(headers.end(), common_headers_.begin(), common_headers_.end());
  headers.push_back({"X-Content-Type-Options", "nosniff"});
  return AnswerHeadText({.status = status,
                         .headers = std::move(headers),
                         .http_1_1 = framing_.http_1_1,
                         .keep_alive = keep_alive_,
                         .date = absl::Now(),
                         .content_length = content_length});
}

void Connection::Write(std::string bytes, OutputQueue::Written written) {
  const bool was_empty = output_.empty();
  output_.Append(std::move(bytes), std::move(written));
  // While others are waited for, a client that takes nothing is waited for already.
  if (was_empty || !watches_output_) Flush();
}

void Connection::Flush() {
  const ByteStream::Result result = output_.Flush(*stream_);
  if (phase_ == Phase::kClosed) return;
  const bool stuck = result.outcome == ByteStream::Outcome::kWantsToWrite;
  if (!stuck && result.outcome != ByteStream::Outcome::kDone) return Close();
  if (result.bytes > 0) next_ping_ = SteadyNow() + surroundings_.options.ping_interval;
  const bool answers = InExchange() || phase_ == Phase::kEnding;
  if (output_.empty() && more_ != nullptr) AppendMore();  // written after other connections' turns
  if (!output_.empty()) {
    if (answers && (result.bytes > 0 || deadline_ == absl::InfiniteFuture())) {
      SetDeadline(surroundings_.options.stall_timeout);
    }
    return WatchOutput();
  }
  unread_.GiveBack();
  if (answers) ForgetDeadline();
  if (phase_ == Phase::kEnding) return FinishAnswer();
  ArmTimer();
}

void Connection::WatchOutput() {
  if (watches_output_) return;
  watches_output_ = true;
  descriptor_->async_wait(boost::asio::posix::descriptor_base::wait_write,
                          [self = shared_from_this()](const boost::system::error_code& error) {
                            self->watches_output_ = false;
                            if (error || self->phase_ == Phase::kClosed) return;
                            if (self->phase_ == Phase::kHandshake) {
                              self->GoOnWithHandshake();
                            } else {
                              self->Flush();
                            }
                          });
}

void Connection::FinishAnswer() {
  gone_ = nullptr;
  ++exchange_;
  EndUnfinished();
  EndEntry(/*whole=*/!breaks_);
  if (breaks_ && !framing_.http_1_1) return Close();
  if (breaks_ || !keep_alive_ || draining_) return Linger();
  AwaitRequest(surroundings_.options.idle_timeout);
}

void Connection::AwaitRequest(absl::Duration timeout) {
  phase_ = Phase::kIdle;
  common_headers_.clear();
  path_.clear();
  unread_.SetTenant("");
  head_at_.reset();
  request_bytes_ = 0;
  parser_ = std::make_unique<RequestParser>(
      RequestParser::Limits{.max_header_bytes = surroundings_.options.max_header_bytes,
                            .max_body_bytes = surroundings_.options.max_body_bytes});
  SetDeadline(timeout);
  if (input_.empty() && !input_ended_) return WatchInput();
  // Not at once: a client may have sent very many requests.
  boost::asio::post(surroundings_.io, [self = shared_from_this()] { self->Advance(); });
}

void Connection::Linger() {
  stream_->EndWriting();
  if (input_ended_) return Close();
  phase_ = Phase::kLingering;
  parser_.reset();
  Free(input_);
  SetDeadline(surroundings_.options.linger_timeout);
  WatchInput();
}

}  // namespace baton
