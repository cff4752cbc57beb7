#include "router/front/front_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/server.h"
#include "gtest/gtest.h"

#include "baton/v1/generation.grpc.pb.h"
#include "router/front/client_identity.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FrontSocketTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }

  // Serves a service without methods, at the socket that `user` may use.
  void Serve(uid_t user) {
    auto socket = FrontSocket::Listen({.path = path_, .user = user});
    ASSERT_TRUE(socket.ok()) << socket.status();
    grpc::ServerBuilder builder;
    (*socket)->AddTo(builder);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    socket_ = *std::move(socket);
    socket_->Start();
  }
  // What a call with that header ends with.
  grpc::Status Call(const std::string& header = "") const {
    const auto channel = grpc::CreateChannel("unix:" + path_, grpc::InsecureChannelCredentials());
    grpc::ClientContext context;
    if (!header.empty()) context.AddMetadata(kClientCertificateHeader, header);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::ListModelsResponse response;
    return v1::GenerationService::NewStub(channel)->ListModels(&context, v1::ListModelsRequest(),
                                                               &response);
  }
  static std::string Refusal(const std::string& path) {
    return std::string(FrontSocket::Listen({.path = path, .user = getuid()}).status().message());
  }

  const std::string path_ = ::testing::TempDir() + "front_socket_test.sock";
  v1::GenerationService::Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<FrontSocket> socket_;  // ends before the server
};

TEST_F(FrontSocketTest, ServesTheFrontsUser) {
  Serve(getuid());
  EXPECT_EQ(Call().error_code(), grpc::StatusCode::UNIMPLEMENTED) << "the service's own answer";
  EXPECT_EQ(Call("no certificate").error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(FrontSocketTest, ClosesTheConnectionsOfAnotherUser) {
  Serve(getuid() + 1);
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  char byte;
  EXPECT_EQ(read(connection, &byte, 1), 0) << "closed without gRPC's first bytes";
  close(connection);
}

TEST_F(FrontSocketTest, TakesThePlaceOfASocketThatNobodyListensAt) {
  Serve(getuid());
  EXPECT_THAT(Refusal(path_), HasSubstr("another process listens there"));
  const int dead = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_.reset();
  EXPECT_FALSE(std::filesystem::exists(path_)) << "removed with its owner";
  std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(dead, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(dead);
  Serve(getuid());
  EXPECT_EQ(Call().error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(FrontSocketTest, APathThatCannotBeIsNamed) {
  std::ofstream(path_) << "a file";
  EXPECT_THAT(Refusal(path_), AllOf(HasSubstr("--front-socket " + path_), HasSubstr("no socket")));
  EXPECT_THAT(Refusal("/nonexistent/front.sock"), HasSubstr("No such file"));
  EXPECT_THAT(Refusal(std::string(200, 'x')), HasSubstr("at most 107 bytes"));
  EXPECT_THAT(Refusal(""), HasSubstr("--front-socket"));
}

}  // namespace
}  // namespace baton
