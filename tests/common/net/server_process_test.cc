// A server as a process: its exit codes, signals, memory and descriptors.
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <list>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"

#include "baton/v1/generation.grpc.pb.h"
#include "common/flags/flags.h"
#include "common/net/channel.h"
#include "common/net/server.h"
#include "tests/common/net/test_calls.h"
#include "tests/common/net/test_process.h"
#include "tests/common/net/test_sockets.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::string> TestServer(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), BATON_TEST_SERVER);
  return arguments;
}

// The addresses that the server prints: listen, health, metrics.
std::vector<std::string> Addresses(TestProcess& process) {
  return absl::StrSplit(process.ReadLine(), ' ');
}

TEST(ServerProcess, APortInUseIsOneLineAndExitCodeTwo) {
  TestProcess first(TestServer(
      {"--listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0", "--health-listen=127.0.0.1:0"}));
  const std::vector<std::string> addresses = Addresses(first);
  ASSERT_EQ(addresses.size(), 3u);
  const char* kFlags[] = {"--listen", "--health-listen", "--metrics-listen"};
  for (size_t i = 0; i < 3; ++i) {
    std::vector<std::string> arguments = {absl::StrCat(kFlags[i], "=", addresses[i])};
    if (i > 0) arguments.emplace_back("--listen=127.0.0.1:0");
    TestProcess second(TestServer(arguments));
    const std::string errors = second.ReadErrors();
    EXPECT_EQ(second.Wait(), kExitUsage);
    EXPECT_THAT(errors,
                AllOf(HasSubstr(absl::StrCat(kFlags[i], " ", addresses[i])), HasSubstr("in use")));
    EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << errors;
  }
}

TEST(ServerProcess, CheckConfigValidatesAndEnds) {
  TestProcess good(TestServer({"--check-config"}));
  EXPECT_EQ(good.Wait(), 0);
  TestProcess bad(TestServer({"--check-config", "--listen=0.0.0.0:1"}));
  EXPECT_THAT(bad.ReadErrors(), HasSubstr("test-server: --listen 0.0.0.0:1"));
  EXPECT_EQ(bad.Wait(), kExitUsage);
  TestProcess unknown(TestServer({"--nonsense"}));
  EXPECT_THAT(unknown.ReadErrors(), HasSubstr("--nonsense"));
  EXPECT_EQ(unknown.Wait(), kExitUsage);
}

TEST(ServerProcess, TheFirstSignalDrainsTheSecondEnds) {
  TestProcess idle(TestServer({"--listen=127.0.0.1:0"}));
  Addresses(idle);
  idle.Signal(SIGINT);
  EXPECT_EQ(idle.Wait(), 0);

  TestProcess busy(TestServer({"--listen=127.0.0.1:0", "--shutdown-timeout=1h"}));
  const auto stub = v1::GenerationService::NewStub(Connect(Addresses(busy)[0]));
  grpc::ClientContext context;
  SetDeadline(context);
  const auto reader = stub->Generate(&context, v1::GenerateRequest());
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  busy.Signal(SIGTERM);
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_EQ(kill(busy.pid(), 0), 0) << "a stream runs, so it waits";
  busy.Signal(SIGTERM);
  EXPECT_EQ(busy.Wait(), 128 + SIGTERM);
}

// The most memory that the process has had so far.
int64_t PeakMemoryBytes(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) << 10;
  }
  return 0;
}

TEST(ServerProcess, ACompressedRequestIsRefusedBeforeItGrows) {
  constexpr size_t kUnpackedBytes = 64 << 20;
  constexpr int64_t kMayCostBytes = 8 << 20;
  TestProcess server(TestServer({"--listen=127.0.0.1:0"}));
  // A peer with gRPC's own settings: Baton's channels would not compress.
  const auto stub = v1::GenerationService::NewStub(
      grpc::CreateChannel(Addresses(server)[0], grpc::InsecureChannelCredentials()));
  const auto tokenize = [&](grpc_compression_algorithm algorithm, size_t bytes) {
    grpc::ClientContext context;
    SetDeadline(context);
    context.set_compression_algorithm(algorithm);
    v1::TokenizeRequest request;
    request.set_text(std::string(bytes, 'x'));
    v1::TokenizeResponse response;
    return FromGrpcStatus(stub->Tokenize(&context, request, &response));
  };
  ASSERT_TRUE(tokenize(GRPC_COMPRESS_NONE, 1000).ok());
  const int64_t before = PeakMemoryBytes(server.pid());
  ASSERT_GT(before, 0);
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    EXPECT_EQ(tokenize(algorithm, kUnpackedBytes).code(), absl::StatusCode::kUnimplemented);
  }
  EXPECT_LE(PeakMemoryBytes(server.pid()) - before, kMayCostBytes);
  EXPECT_TRUE(tokenize(GRPC_COMPRESS_NONE, 1000).ok()) << "the connection goes on";
}

// gRPC's own listener would never accept again.
TEST(ServerProcess, AcceptsAgainOnceItHasDescriptors) {
  TestProcess server(TestServer({"--listen=127.0.0.1:0"}));
  const std::string address = Addresses(server)[0];
  {
    const NoMoreDescriptors none(server.pid());
    // A file that the server was just reading leaves a gap, which a connection fills.
    std::list<TestSocket> connections;
    bool refused = false;
    while (!refused && connections.size() < 10) {
      ASSERT_TRUE(connections.emplace_back().Connect(address));
      refused = connections.back().IsClosed();
    }
    EXPECT_TRUE(refused) << "and it does not wait";
  }
  EXPECT_EQ(CheckHealth(address, "readiness"), "SERVING");
}

// Without keepalive pings both calls would last until their deadline.
TEST(ServerProcess, APeerThatIsStoppedIsFoundByKeepalive) {
  TestProcess server(TestServer({"--listen=127.0.0.1:0"}));
  const std::string address = Addresses(server)[0];
  for (const ChannelPurpose purpose : {ChannelPurpose::kDecode, ChannelPurpose::kBulk}) {
    const auto stub = v1::GenerationService::NewStub(Connect(address, purpose));
    grpc::ClientContext context;
    SetDeadline(context);
    const auto reader = stub->Generate(&context, v1::GenerateRequest());
    v1::GenerateResponse response;
    ASSERT_TRUE(reader->Read(&response));
    server.Signal(SIGSTOP);
    EXPECT_FALSE(reader->Read(&response));
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
    server.Signal(SIGCONT);
  }
}

}  // namespace
}  // namespace baton
