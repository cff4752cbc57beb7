#include "client/serve/curl_line.h"

#include <algorithm>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "common/base/address.h"
#include "common/certificates/certificate_files.h"
#include "common/certificates/server_name.h"

namespace baton {
namespace {

// Returns `text` in the form in which a shell reads it as one word.
std::string ShellWord(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("._-/+", c);
  });
  return plain ? text : absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

}  // namespace

std::string CurlLine(absl::string_view address, bool needs_key, const TlsFlags& tls) {
  std::string host(address), flags;
  if (tls.own_certificate()) {
    const absl::StatusOr<CertificateTexts> texts = ReadCertificateFiles(tls);
    absl::StatusOr<HostPort> parsed = ParseHostPort(address);
    if (texts.ok() && parsed.ok()) {
      parsed->host = HostToCall(texts->chain, parsed->host);
      host = parsed->ToString();
    }
    if (!texts.ok() || !IsPubliclyTrusted(texts->chain)) {
      absl::StrAppend(&flags, "--cacert ", ShellWord(tls.cert_file), " ");
    }
    if (!needs_key) absl::StrAppend(&flags, "--cert client.crt --key client.key ");
  }
  return absl::StrCat("  curl ", flags, tls.own_certificate() ? "https://" : "http://", host,
                      "/v1/chat/completions -H 'Content-Type: application/json' ",
                      needs_key ? "-H \"Authorization: Bearer $BATON_API_KEY\" " : "",
                      R"(-d '{"messages": [{"role": "user", "content": "Hello"}], )",
                      R"("max_tokens": 60}')");
}

}  // namespace baton
