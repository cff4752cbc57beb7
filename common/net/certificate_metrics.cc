#include "common/net/certificate_metrics.h"

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace baton {

void AddCertificateMetrics(const Credentials& credentials, const TlsFlags& tls, Metrics& metrics) {
  const auto add_end = [&](const char* file, auto end_of) {
    metrics.AddGauge(
        "baton_tls_certificate_expiry_seconds",
        "Seconds until the certificates and revocation lists in use end", {{"file", file}},
        [credentials, end_of] {
          return absl::ToDoubleSeconds(end_of(credentials.certificates()) - absl::Now());
        });
  };
  using State = CertificateWatcher::State;
  add_end("tls-cert", [](const State& state) { return state.facts.chain_ends; });
  if (tls.uses_ca()) {
    add_end("tls-ca", [](const State& state) { return state.facts.roots_end; });
  }
  if (!tls.crl_file.empty()) {
    add_end("tls-crl", [](const State& state) { return state.lists_end; });
  }
  const auto add_count = [&](const char* name, const char* help,
                             uint64_t CertificateWatcher::State::*count) {
    metrics.AddCounterFunction(name, help, {}, [credentials, count] {
      return static_cast<double>(credentials.certificates().*count);
    });
  };
  add_count("baton_tls_reloads_total",
            "Times that renewed certificates or revocation lists were taken",
            &CertificateWatcher::State::reloads);
  add_count("baton_tls_failed_reloads_total",
            "Times that changed certificates or revocation lists were refused, and the former kept",
            &CertificateWatcher::State::failed_reloads);
}

}  // namespace baton
