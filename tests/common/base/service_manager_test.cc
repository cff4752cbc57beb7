#include "common/base/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

// A manager's socket by the name `variable`, as NOTIFY_SOCKET has it.
class Manager {
 public:
  explicit Manager(const std::string& variable)
      : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, variable.data(), variable.size());
    if (variable[0] == '@') address.sun_path[0] = 0;
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + variable.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), length), 0);
    setenv("NOTIFY_SOCKET", variable.c_str(), /*overwrite=*/1);
  }
  ~Manager() {
    close(fd_);
    unsetenv("NOTIFY_SOCKET");
  }
  // The next message; empty if there is none.
  std::string Next() const {
    char message[256];
    const ssize_t size = recv(fd_, message, sizeof(message), MSG_DONTWAIT);
    return size < 0 ? "" : std::string(message, static_cast<size_t>(size));
  }

 private:
  const int fd_;
};

std::string SocketPath() {
  return absl::StrCat(testing::TempDir(), "service_manager_test_", getpid());
}

TEST(ServiceManager, IsToldByASocketOfTheFileSystemAndByAnAbstractOne) {
  const std::string path = SocketPath();
  for (const std::string& name : {path, absl::StrCat("@baton-service-manager-test-", getpid())}) {
    const Manager manager(name);
    EXPECT_TRUE(NotifyServiceManager(kServiceReady)) << name;
    EXPECT_TRUE(NotifyServiceManager(kServiceStopping)) << name;
    EXPECT_EQ(manager.Next(), "READY=1");
    EXPECT_EQ(manager.Next(), "STOPPING=1");
  }
  unlink(path.c_str());
}

TEST(ServiceManager, NothingIsSentWithoutOne) {
  unsetenv("NOTIFY_SOCKET");
  EXPECT_FALSE(NotifyServiceManager(kServiceReady));
  for (const std::string& name : {std::string(), std::string("relative"), std::string(200, '/'),
                                  absl::StrCat(SocketPath(), "-of-nobody")}) {
    setenv("NOTIFY_SOCKET", name.c_str(), /*overwrite=*/1);
    EXPECT_FALSE(NotifyServiceManager(kServiceReady)) << name;
  }
  unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace baton
