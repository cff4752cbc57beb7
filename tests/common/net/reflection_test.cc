#include "common/net/reflection.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

#include "tests/common/net/test_service.h"
#include "tests/support/raw_call.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using Request = grpc::reflection::v1::ServerReflectionRequest;
using Response = grpc::reflection::v1::ServerReflectionResponse;

class ReflectionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    builder.SetOption(ReflectionOption(true));
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    channel_ =
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
  }

  // The answers of one stream to its requests.
  std::vector<Response> Reflect(const std::vector<Request>& requests) {
    std::vector<std::string> messages;
    for (const Request& request : requests) messages.push_back(request.SerializeAsString());
    const RawAnswer answer = RawCall(channel_, kMethod, messages);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.messages.size(), requests.size());
    std::vector<Response> responses(answer.messages.size());
    for (size_t i = 0; i < responses.size(); ++i)
      EXPECT_TRUE(responses[i].ParseFromString(answer.messages[i]));
    return responses;
  }

  static constexpr char kMethod[] = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
  TestService service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(ReflectionTest, ListsEveryServiceOfTheServerAndItself) {
  Request request;
  request.set_list_services("*");
  const auto responses = Reflect({request});
  ASSERT_EQ(responses.size(), 1u);
  std::multiset<std::string> names;
  for (const auto& service : responses[0].list_services_response().service())
    names.insert(service.name());
  EXPECT_EQ(names.count("baton.v1.GenerationService"), 1u);
  EXPECT_EQ(names.count("grpc.reflection.v1.ServerReflection"), 1u);
}

TEST_F(ReflectionTest, TellsFilesAndWhatItDoesNotKnowInOneStream) {
  std::vector<Request> requests(8);
  requests[0].set_file_containing_symbol("baton.v1.SamplingParams.top_p");
  requests[1].set_file_by_filename("baton/v1/generation.proto");
  requests[2].set_all_extension_numbers_of_type("baton.v1.Usage");
  requests[3].set_file_containing_symbol("baton.v1.Nothing");
  requests[4].set_file_by_filename("nothing.proto");
  requests[5].set_all_extension_numbers_of_type("baton.v1.Nothing");
  requests[6].mutable_file_containing_extension()->set_containing_type("baton.v1.Usage");
  const std::vector<Response> responses = Reflect(requests);
  ASSERT_EQ(responses.size(), requests.size());
  for (const size_t i : {0, 1}) {
    const auto& files = responses[i].file_descriptor_response().file_descriptor_proto();
    ASSERT_EQ(files.size(), 3) << "with its two imports";
    google::protobuf::FileDescriptorProto file;
    ASSERT_TRUE(file.ParseFromString(files[0]));
    EXPECT_EQ(file.name(), "baton/v1/generation.proto");
  }
  EXPECT_EQ(responses[2].all_extension_numbers_response().base_type_name(), "baton.v1.Usage");
  for (size_t i = 0; i < responses.size(); ++i) {
    EXPECT_EQ(responses[i].original_request().DebugString(), requests[i].DebugString());
    const int code = responses[i].error_response().error_code();
    EXPECT_EQ(code, i < 3   ? 0
                    : i < 7 ? grpc::StatusCode::NOT_FOUND
                            : grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_THAT(responses[3].error_response().error_message(), HasSubstr("'baton.v1.Nothing'"));
}

TEST_F(ReflectionTest, AFileComesFirstAndThenEachOfItsImportsOnce) {
  Request request;
  request.set_file_containing_symbol("baton.v1.GenerationService");
  const auto responses = Reflect({request});
  ASSERT_EQ(responses.size(), 1u);
  std::vector<std::string> names;
  std::set<std::string> imports;
  for (const std::string& bytes : responses[0].file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    ASSERT_TRUE(file.ParseFromString(bytes));
    names.push_back(file.name());
    imports.insert(file.dependency().begin(), file.dependency().end());
  }
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names[0], "baton/v1/generation.proto");
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string& import : imports) {
    EXPECT_NE(std::find(names.begin(), names.end(), import), names.end()) << import;
  }
}

TEST_F(ReflectionTest, RepeatsTheHostThatWasAskedFor) {
  Request request;
  request.set_host("router.example");
  request.set_list_services("*");
  const auto responses = Reflect({request, Request()});
  ASSERT_EQ(responses.size(), 2u);
  EXPECT_EQ(responses[0].valid_host(), "router.example");
  EXPECT_EQ(responses[1].valid_host(), "");
}

TEST_F(ReflectionTest, AMessageThatIsNoRequestEndsTheStreamWithAnError) {
  const RawAnswer answer = RawCall(channel_, kMethod, {"\xff\xff\xff"});
  EXPECT_TRUE(absl::IsInvalidArgument(answer.status)) << answer.status;
  EXPECT_TRUE(answer.messages.empty());
}

}  // namespace
}  // namespace baton
