#include "common/worker/worker_service.h"

#include <atomic>
#include <chrono>
#include <set>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

#include "common/base/random.h"
#include "common/net/channel.h"
#include "common/rpc/limits.h"
#include "common/rpc/status.h"
#include "tests/support/certificates.h"
#include "tests/support/raw_call.h"

namespace baton {
namespace {

class WorkerServiceTest : public ::testing::Test {
 protected:
  using Stub = internal::v1::WorkerService::Stub;
  // One stream and its context.
  struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<internal::v1::WatchResponse>> reader;
  };

  void SetUp() override { Serve("127.0.0.1:1"); }
  void Serve(const std::string& address, const Credentials& own = Credentials::Loopback(),
             const Credentials& routers = Credentials::Loopback()) {
    internal::v1::WorkerInfo info = MakeWorkerInfo(internal::v1::WORKER_ROLE_DECODE, "d-0", {}, {});
    info.set_address(address);
    service_ = std::make_unique<WorkerService>(
        info,
        [this] {
          EngineStats stats;
          stats.progress = ++progress_;
          stats.free_blocks = -3;
          stats.generated_tokens = 5000000000;
          return WatchFromStats(state_, stats);
        },
        own, &pages_);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", own.ForServer(), &port_);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    channel_ = *MakeChannel("127.0.0.1:" + std::to_string(port_), routers, ChannelPurpose::kDecode);
    stub_ = internal::v1::WorkerService::NewStub(channel_);
  }
  void TearDown() override {
    service_->Close();
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  std::unique_ptr<Stream> Watch(const std::string& router = "") { return Watch(*stub_, router); }
  static std::unique_ptr<Stream> Watch(Stub& stub, const std::string& router) {
    auto stream = std::make_unique<Stream>();
    stream->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    internal::v1::WatchRequest request;
    request.set_router(router);
    stream->reader = stub.Watch(&stream->context, request);
    return stream;
  }
  // What a process has whose certificate and lists are in the files `name`.*.
  Credentials Tls(const std::string& name, const TestCertificate& own) const {
    TlsFlags tls;
    tls.cert_file = WriteTestFile(name + ".pem", own.pem);
    tls.key_file = WriteTestFile(name + ".key", own.key_pem);
    tls.ca_file = WriteTestFile("ca.pem", authority_.pem());
    tls.crl_file = WriteTestFile(name + ".crl", authority_.Revoke({}));
    return *Credentials::Create(tls, absl::Milliseconds(2));
  }
  // The server asks for certificates from now on.
  void ServeWithTls(const Credentials& routers = Credentials::Loopback()) {
    TearDown();
    service_.reset();
    Serve("127.0.0.1:1", Tls("worker", authority_.IssueRole("decode/d-0")), routers);
  }
  // A router with a certificate of that name, on a connection of its own.
  std::unique_ptr<Stub> Router(const std::string& name) const {
    const TestCertificate certificate = authority_.IssueRole("router/" + name);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return internal::v1::WorkerService::NewStub(grpc::CreateCustomChannel(
        "127.0.0.1:" + std::to_string(port_),
        grpc::SslCredentials({authority_.pem(), certificate.key_pem, certificate.pem}), arguments));
  }
  static bool Hears(Stream& stream) {
    internal::v1::WatchResponse response;
    return stream.reader->Read(&response);
  }
  // The status with which the stream ends; reads what comes before.
  static absl::Status End(Stream& stream) {
    while (Hears(stream)) {
    }
    return FromGrpcStatus(stream.reader->Finish());
  }

  // Reads until the messages add up to exactly the pages `expected`. Returns the number of messages
  // with pages.
  static int ReadPages(Stream& stream, std::set<uint64_t>& pages,
                       const std::set<uint64_t>& expected, uint64_t& version) {
    int messages = 0;
    for (internal::v1::WatchResponse response; pages != expected || messages == 0;) {
      if (!stream.reader->Read(&response)) {
        ADD_FAILURE() << "the stream ended";
        break;
      }
      if (!response.has_prefix()) continue;
      ++messages;
      const internal::v1::PrefixDelta& delta = response.prefix();
      EXPECT_EQ(delta.version(), ++version);
      EXPECT_EQ(delta.full(), version == 1);
      EXPECT_LE(static_cast<size_t>(delta.added_size() + delta.removed_size()), kMaxPrefixPages);
      pages.insert(delta.added().begin(), delta.added().end());
      for (const uint64_t page : delta.removed()) pages.erase(page);
    }
    return messages;
  }

  const TestAuthority authority_{"mesh"};
  int port_ = 0;
  PrefixPages pages_;
  std::atomic<uint64_t> progress_ = 0;
  std::atomic<ServerState> state_ = ServerState::kStarting;
  std::unique_ptr<WorkerService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Stub> stub_;
};

TEST_F(WorkerServiceTest, ARequestThatCannotBeDecodedIsRefused) {
  const absl::Status status =
      RawCall(channel_, "/baton.internal.v1.WorkerService/Watch", {"\xff"}).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_FALSE(status.message().empty());
}

TEST_F(WorkerServiceTest, TheFirstMessageSaysWhoTheRestHowItIs) {
  const auto stream = Watch();
  internal::v1::WatchResponse first;
  ASSERT_TRUE(stream->reader->Read(&first));
  EXPECT_EQ(first.info().name(), "d-0");
  EXPECT_EQ(first.info().address(), "127.0.0.1:1");
  EXPECT_EQ(first.info().incarnation(), service_->info().incarnation());
  EXPECT_EQ(first.state(), internal::v1::WORKER_STATE_STARTING);
  EXPECT_EQ(first.load().free_blocks(), 0u) << "never a huge number from a negative one";
  EXPECT_EQ(first.load().generated_tokens(), 5000000000u);
  internal::v1::WatchResponse second;
  ASSERT_TRUE(stream->reader->Read(&second));
  EXPECT_FALSE(second.has_info());
  EXPECT_GT(second.progress(), first.progress());
}

TEST_F(WorkerServiceTest, WhoWatchesBeforeTheAddressIsKnownHearsNothingWithoutIt) {
  TearDown();
  service_.reset();
  Serve("");
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 5; ++i) streams.push_back(Watch());
  for (int i = 0; i < 1000 && service_->watchers() < 5; ++i) absl::SleepFor(absl::Milliseconds(1));
  service_->SetAddress("127.0.0.1:2");
  for (const auto& stream : streams) {
    internal::v1::WatchResponse first;
    ASSERT_TRUE(stream->reader->Read(&first));
    EXPECT_EQ(first.info().address(), "127.0.0.1:2");
  }
}

TEST_F(WorkerServiceTest, AChangeOfStateReachesAllWatchers) {
  std::vector<std::unique_ptr<Stream>> streams;
  internal::v1::WatchResponse response;
  for (int i = 0; i < 5; ++i) {
    streams.push_back(Watch());
    ASSERT_TRUE(streams.back()->reader->Read(&response));
  }
  state_ = ServerState::kReady;
  service_->StateChanged();
  for (const auto& stream : streams) {
    do {
      ASSERT_TRUE(stream->reader->Read(&response));
    } while (response.state() != internal::v1::WORKER_STATE_READY);
  }
}

TEST_F(WorkerServiceTest, WatchersAreBoundedAndLeaveRoomWhenTheyGo) {
  ServeWithTls();
  std::vector<std::unique_ptr<Stub>> routers;
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < kMaxWatchers; ++i) {
    if (i % kMaxWatchersOfPeer == 0) routers.push_back(Router(std::to_string(i)));
    streams.push_back(Watch(*routers.back(), ""));
    ASSERT_TRUE(Hears(*streams.back()));
  }
  const auto another = Router("another");
  const absl::Status status = End(*Watch(*another, ""));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryDelay(status).has_value());

  for (auto& stream : streams) stream->context.TryCancel();
  for (int i = 0; i < 1000 && service_->watchers() > 0; ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(service_->watchers(), 0);
  EXPECT_TRUE(Hears(*Watch(*another, "")));
}

TEST_F(WorkerServiceTest, StreamsOfOneCertificateLockNoOtherRouterOut) {
  ServeWithTls();
  const auto greedy = Router("greedy"), other = Router("other");
  std::vector<std::unique_ptr<Stream>> streams;
  int served = 0;
  for (int i = 0; i < kMaxWatchers; ++i) {
    streams.push_back(Watch(*greedy, RandomBytes(kWatchingRouterBytes)));
    if (Hears(*streams.back())) ++served;
  }
  EXPECT_EQ(served, kMaxWatchersOfPeer) << "routers may share a certificate";
  EXPECT_EQ(End(*streams.back()).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Hears(*Watch(*other, RandomBytes(kWatchingRouterBytes))));
}

TEST_F(WorkerServiceTest, ANewerStreamOfARouterEndsTheOlder) {
  const std::string router = RandomBytes(kWatchingRouterBytes);
  const auto without = Watch(), other = Watch(RandomBytes(kWatchingRouterBytes));
  ASSERT_TRUE(Hears(*without) && Hears(*other));
  std::unique_ptr<Stream> last = Watch(router);
  for (int i = 0; i < 2 * kMaxWatchersOfPeer; ++i) {
    ASSERT_TRUE(Hears(*last));
    auto newer = Watch(router);
    EXPECT_EQ(ErrorReason(End(*last)), kReasonSuperseded) << i;
    last = std::move(newer);
  }
  EXPECT_TRUE(Hears(*last) && Hears(*without) && Hears(*other));
}

TEST_F(WorkerServiceTest, ACertificateEndsNoStreamsOfAnother) {
  ServeWithTls();
  const std::string router = RandomBytes(kWatchingRouterBytes);
  const auto first = Router("a"), second = Router("b");
  const auto stream = Watch(*first, router), copied = Watch(*second, router);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Hears(*stream) && Hears(*copied));
}

TEST_F(WorkerServiceTest, ARouterIsToBeSixteenBytesOrNone) {
  for (const size_t bytes : {1, 15, 17}) {
    const absl::Status status = End(*Watch(std::string(bytes, 'x')));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("router"));
  }
}

TEST_F(WorkerServiceTest, EveryStreamIsToldOfAllPagesAndThenOfWhatChanged) {
  std::set<uint64_t> held;
  for (uint64_t page = 0; page < 2 * kMaxPrefixPages + 5; ++page) held.insert(page * page);
  for (const uint64_t page : held) pages_.Add(page);
  pages_.Publish();
  struct Follower {
    std::unique_ptr<Stream> stream;
    std::set<uint64_t> pages = {};
    uint64_t version = 0;
  };
  std::vector<Follower> followers;
  for (int i = 0; i < 3; ++i) {
    Follower& follower = followers.emplace_back(Follower{.stream = Watch()});
    EXPECT_EQ(ReadPages(*follower.stream, follower.pages, held, follower.version), 3);
  }
  pages_.Remove(1);
  pages_.Add(2);
  pages_.Publish();
  held.erase(1);
  held.insert(2);
  for (Follower& follower : followers) {
    EXPECT_EQ(ReadPages(*follower.stream, follower.pages, held, follower.version), 1);
  }
}

TEST_F(WorkerServiceTest, CloseEndsStreamsAndRefusesNewOnes) {
  const auto stream = Watch();
  internal::v1::WatchResponse response;
  ASSERT_TRUE(stream->reader->Read(&response));
  service_->Close();
  while (stream->reader->Read(&response)) {
  }
  EXPECT_EQ(ErrorReason(FromGrpcStatus(stream->reader->Finish())), kReasonDraining);
  const auto late = Watch();
  EXPECT_FALSE(late->reader->Read(&response));
  EXPECT_EQ(late->reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(WorkerInfo, EveryStartIsAnotherIncarnation) {
  const auto make = [] {
    return MakeWorkerInfo(internal::v1::WORKER_ROLE_PREFILL, "p", {}, {}).incarnation();
  };
  EXPECT_NE(make(), make());
}

TEST_F(WorkerServiceTest, AStreamEndsWhenTheCertificateOfItsRouterIsRevoked) {
  const TestCertificate router = authority_.IssueRole("router/a");
  ServeWithTls(Tls("router", router));
  const auto stream = Watch();
  internal::v1::WatchResponse response;
  ASSERT_TRUE(stream->reader->Read(&response));
  WriteTestFile("worker.crl",
                authority_.Revoke({.revoked = {authority_.IssueRole("router/b"), router}}));
  while (stream->reader->Read(&response)) {
  }
  const grpc::Status end = stream->reader->Finish();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::UNAUTHENTICATED) << end.error_message();
  EXPECT_THAT(end.error_message(), ::testing::HasSubstr("was revoked"));
}

}  // namespace
}  // namespace baton
