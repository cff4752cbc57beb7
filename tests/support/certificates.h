// Certificates for tests: a certificate authority that signs whatever it is asked to.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace baton {

struct TestCertificate {
  std::string pem;
  std::string key_pem;
};

class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name);
  ~TestAuthority();

  // The authority's own certificate.
  const std::string& pem() const { return pem_; }

  struct Holder {
    std::string common_name = "test";
    std::string names = "";  // beside IP:127.0.0.1, such as "DNS:a,URI:spiffe://b/c"
    std::string key_usage = "serverAuth,clientAuth";
    absl::Time from = absl::Now() - absl::Hours(1);
    absl::Time until = absl::Now() + absl::Hours(1);
  };
  TestCertificate Issue(const Holder& holder) const;
  // A certificate for spiffe://test/baton/`path`, for example "router/a".
  TestCertificate IssueRole(const std::string& path) const;

  // A list of revoked certificates, signed by the authority.
  struct List {
    std::vector<TestCertificate> revoked{};
    absl::Time from = absl::Now() - absl::Hours(1);
    absl::Time until = absl::Now() + absl::Hours(1);
    bool only_changes = false;  // since an earlier list
  };
  std::string Revoke(const List& list) const;

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
  std::string pem_;
};

// Writes `text` to a file for this run of the test, and returns its path.
std::string WriteTestFile(const std::string& name, const std::string& text);

}  // namespace baton
