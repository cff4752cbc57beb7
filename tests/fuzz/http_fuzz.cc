// Any bytes on a connection of HTTP: the answers are well-formed, and the server can end it.
//
// The input is a byte that says how requests are answered, one that says how many bytes come at a
// time, and the bytes.
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

#include "common/base/check.h"
#include "router/http/connection.h"
#include "router/http/http_server.h"
#include "tests/fuzz/fuzz_input.h"

namespace baton {
namespace {

const std::set<int> kStatuses = {100, 200, 204, 400, 401, 413, 417, 431, 500, 501, 505};

// The ways to answer, of which each request takes the next.
enum class Way { kWhole, kLate, kEvents, kLost, kBroken, kCount };

class Run {
 public:
  explicit Run(FuzzInput input);
  // NOLINTNEXTLINE(bugprone-exception-escape): only a broken connection throws here
  ~Run() {
    if (!closed_) connection_->Close();
    Poll();
    if (!client_ended_) close(client_);
  }

 private:
  void Handle(std::shared_ptr<HttpExchange> exchange, std::string body);
  void Poll() {
    io_.restart();
    io_.poll();
  }
  // Moves bytes until nothing happens any more.
  void Settle();
  bool Receive();
  void CheckAnswers() const;
  // What is left after the answer at the front of `rest`.
  absl::string_view AfterAnswer(absl::string_view rest, size_t& answers) const;

  int way_ = 0;
  int client_ = -1;  // its end of the connection
  bool client_ended_ = false;
  bool closed_ = false;  // by the server
  bool broken_ = false;
  std::vector<bool> heads_;  // whether each request that `check` has seen is HEAD
  std::vector<std::shared_ptr<HttpExchange>> late_;
  std::string received_;
  boost::asio::io_context io_{1};
  std::shared_ptr<IoMailbox> mailbox_ = std::make_shared<IoMailbox>(io_);
  std::string scratch_ = std::string(4096, '\0');
  TokenBucket long_input_ = {1e12, 0};
  std::atomic<size_t> event_streams_ = 0;
  std::atomic<size_t> unfinished_answers_ = 0;
  UnreadBytes unread_bytes_{size_t{1} << 20};
  HttpServer::Options options_;
  HttpServer::Handler handler_;
  std::shared_ptr<Connection> connection_;
};

Run::Run(FuzzInput input) : way_(input.Byte()) {
  const size_t piece = 1 + static_cast<size_t>(input.Byte());
  options_.max_header_bytes = 400;
  options_.max_body_bytes = 300;
  options_.cors_origins = {"https://a.example"};
  handler_.check = [this](const HttpRequest& head) -> std::optional<HttpResponse> {
    heads_.push_back(head.method == "HEAD");
    if (head.path == "/no") return HttpResponse{.status = 401, .headers = {}, .body = "no"};
    return std::nullopt;
  };
  // Bodies of "/dropped" are thrown away, and of "/small" only a few bytes have room.
  handler_.room = [](const HttpRequest& head) -> std::optional<BodyRoom> {
    if (head.path == "/dropped") return std::nullopt;
    return [left = head.path == "/small" ? size_t{100} : size_t{100000}](size_t bytes) mutable {
      if (bytes > left) return absl::ResourceExhaustedError("full");
      left -= bytes;
      return absl::OkStatus();
    };
  };
  handler_.handle = [this](auto exchange, HttpBody body) {
    Handle(std::move(exchange), std::move(body.bytes));
  };
  handler_.error_answer = [](const HttpRequest& request, int status, const std::string& message) {
    return JsonResponse(status, request.path + message);
  };
  int ends[2] = {-1, -1};
  BATON_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0,
              "a pair of sockets");
  client_ = ends[0];
  connection_ = std::make_shared<Connection>(
      ends[1], "unix:", nullptr,
      Connection::Surroundings{.options = options_,
                               .handler = handler_,
                               .io = io_,
                               .mailbox = mailbox_,
                               .scratch = scratch_,
                               .long_input = long_input_,
                               .closed = [this](Connection&) { closed_ = true; },
                               .event_streams = event_streams_,
                               .unfinished_answers = unfinished_answers_,
                               .unread_bytes = unread_bytes_});
  connection_->Start();
  while (!input.empty() && !closed_) {
    const std::string bytes = input.Bytes(piece);
    if (send(client_, bytes.data(), bytes.size(), MSG_NOSIGNAL) <= 0) break;
    Settle();
  }
  shutdown(client_, SHUT_WR);
  Settle();
  BATON_CHECK(closed_, "a connection whose client sends no more ends with its answers");
  BATON_CHECK(event_streams_ == 0, "a closed connection has no stream");
  BATON_CHECK(unfinished_answers_ == 0, "a closed connection has no answer");
  BATON_CHECK(unread_bytes_.bytes() == 0, "a closed connection has nothing unread");
  CheckAnswers();
}

void Run::Handle(std::shared_ptr<HttpExchange> exchange, std::string body) {
  exchange->OnGone([] {});
  switch (static_cast<Way>(way_++ % static_cast<int>(Way::kCount))) {
    case Way::kWhole:
      return exchange->Respond({.body = std::move(body)});
    case Way::kEvents:
      exchange->BeginEvents({});
      exchange->Send("data: 1\n\n", [](bool) {});
      return exchange->EndEvents();
    case Way::kLate:
      late_.push_back(std::move(exchange));
      return;
    case Way::kBroken:
      broken_ = true;
      exchange->BeginEvents({});
      exchange->Send("data: 1\n\n", nullptr);
      return exchange->Break();
    case Way::kLost:
    case Way::kCount:
      return;
  }
}

bool Run::Receive() {
  char buffer[4096];
  const ssize_t n = client_ended_ ? 0 : recv(client_, buffer, sizeof(buffer), 0);
  if (n > 0) received_.append(buffer, static_cast<size_t>(n));
  return n > 0;
}

void Run::Settle() {
  for (bool moves = true; moves;) {
    Poll();
    moves = Receive();
    for (const auto& exchange : std::exchange(late_, {})) {
      moves = true;
      if (exchange->request().query.empty()) {
        exchange->Respond({.body = "late"});
      } else {
        exchange->BeginEvents({});
        exchange->EndEvents();
      }
    }
  }
}

void Run::CheckAnswers() const {
  absl::string_view rest = received_;
  size_t answers = 0;
  while (!rest.empty()) rest = AfterAnswer(rest, answers);
}

absl::string_view Run::AfterAnswer(absl::string_view rest, size_t& answers) const {
  const size_t end = rest.find("\r\n\r\n");
  BATON_CHECK(end != absl::string_view::npos, "headers have an end");
  const absl::string_view head = rest.substr(0, end);
  rest.remove_prefix(end + 4);
  BATON_CHECK(absl::StartsWith(head, "HTTP/1.1 "), "an answer begins with its version");
  const int status = std::atoi(std::string(head.substr(9, 3)).c_str());
  BATON_CHECK(kStatuses.contains(status), "the status is one that the server has");
  if (status == 100) return rest;
  const bool is_head = answers < heads_.size() && heads_[answers];
  ++answers;
  size_t length = 0;
  bool chunked = false, sized = status == 204;
  for (const absl::string_view line : absl::StrSplit(head, "\r\n")) {
    BATON_CHECK(line.find_first_of("\r\n") == absl::string_view::npos, "a line is one line");
    if (absl::StartsWith(line, "Transfer-Encoding: chunked")) chunked = true;
    if (absl::StartsWith(line, "Content-Length: ")) {
      sized = true;
      length = std::stoul(std::string(line.substr(16)));
    }
  }
  BATON_CHECK(!(chunked && sized), "a body has one length");
  if (is_head || (rest.empty() && status >= 400)) return rest;  // a refused HEAD is seen by nobody
  if (sized) {
    BATON_CHECK(rest.size() >= length, "a body is whole");
    return rest.substr(length);
  }
  if (!chunked) return "";  // it ends with the connection
  while (true) {
    const size_t line_end = rest.find("\r\n");
    if (line_end == absl::string_view::npos && broken_) return "";
    BATON_CHECK(line_end != absl::string_view::npos, "a chunk has a size");
    const size_t size = std::stoul(std::string(rest.substr(0, line_end)), nullptr, 16);
    rest.remove_prefix(line_end + 2);
    BATON_CHECK(rest.size() >= size + 2 && rest.substr(size, 2) == "\r\n", "a chunk is whole");
    rest.remove_prefix(size + 2);
    if (size == 0) return rest;
  }
}

}  // namespace
}  // namespace baton

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const baton::Run run(baton::FuzzInput(data, size));
  return 0;
}
